"""One Spark session for all tests: starting one takes longer than most of them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from antecede.spark.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = spark_session("local[2]", short=True)
    yield session
    session.stop()
