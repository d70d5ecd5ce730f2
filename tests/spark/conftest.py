"""One Spark session for all tests: starting one takes longer than most of them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import antecede.spark
from antecede.spark.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = spark_session("local[2]", short=True)
    session.conf.set("spark.sql.shuffle.partitions", "2")  # a batch of some rows costs what its tasks cost
    yield session
    session.stop()


@pytest.fixture(scope="session")
def session(spark: SparkSession) -> SparkSession:
    """The same, with topics as tables."""
    antecede.spark.register(spark)
    return spark
