"""Answers logits with label, confidence and set: `uvicorn examples.service.app:app --workers 2`.

The predictor is the file that the environment variable THERMOSET_PREDICTOR names.
"""

import math
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from thermoset import InputError, TwoTemperaturePredictor

VARIABLE = "THERMOSET_PREDICTOR"
MOST_ROWS = 10_000  # in one request


class Rows(BaseModel):
    """What is asked: rows of logits, null for a masked class; ids where the sets should depend on them."""

    logits: list[list[float | None]] = Field(min_length=1, max_length=MOST_ROWS)
    ids: list[str] | None = None


class Answer(BaseModel):
    """What is answered for a row; labels are names where the predictor has names."""

    label: str | int
    confidence: float
    set: list[str | int]


class Health(BaseModel):
    """What this process serves."""

    status: str
    process: int
    n_classes: int
    alpha: float
    method: str


@asynccontextmanager
async def loaded(service: FastAPI) -> AsyncIterator[None]:
    """Load the predictor before the first request, and answer once: what has to be compiled is compiled then."""
    if VARIABLE not in os.environ:
        raise RuntimeError(f"{VARIABLE} is not set. Set it to the predictor.json that `thermoset tune` wrote.")
    predictor = TwoTemperaturePredictor.load(os.environ[VARIABLE])
    predictor.predict_records(np.zeros((1, predictor.document_.n_classes)))
    service.state.predictor = predictor
    yield


app = FastAPI(title="thermoset", lifespan=loaded)


@app.exception_handler(InputError)
async def refused(_: Request, error: InputError) -> JSONResponse:
    """Bad rows: the library's own words, which say what was wanted, what came and what to do."""
    return JSONResponse({"detail": str(error)}, status_code=422)


@app.get("/health")
def health(request: Request) -> Health:
    """Whether this process can answer."""
    made = request.app.state.predictor.document_
    method, alpha = made.recipe.method.name, float(made.alpha)
    return Health(status="ok", process=os.getpid(), n_classes=made.n_classes, alpha=alpha, method=method)


@app.post("/predict")
def predict(rows: Rows, request: Request) -> list[Answer]:
    """Label, confidence and set of each row. Not async: the work runs in a thread and holds up no other request."""
    logits = [[-math.inf if value is None else value for value in row] for row in rows.logits]
    answers = request.app.state.predictor.predict_records(logits, ids=rows.ids)
    return [Answer(label=one.label, confidence=one.confidence, set=list(one.set)) for one in answers]
