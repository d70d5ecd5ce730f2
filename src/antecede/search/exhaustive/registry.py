"""Every model that can be explored, by name."""

from antecede.core import UsageError
from antecede.search.exhaustive import gossip, locamu, logs, tno, vcube_ps
from antecede.search.exhaustive.model import Model

MODELS: dict[str, Model] = {
    **vcube_ps.MODELS,
    **gossip.MODELS,
    **logs.MODELS,
    **tno.MODELS,
    **locamu.MODELS,
}


def find_model(name: str) -> Model:
    model = MODELS.get(name)
    if model is None:
        raise UsageError("model", name, "is not known", f"choose one of {', '.join(MODELS)}")
    return model
