"""The application: its paths, their requests, answers and errors, described as OpenAPI."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pydantic
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

import offdiag
from offdiag.server import answers, pages, schemas
from offdiag.server.batching import Pool, Scorer
from offdiag.server.limits import Limits, Refusal
from offdiag.server.metrics import Counters
from offdiag.server.middleware import Middleware
from offdiag.server.replies import error, json_reply, one_line
from offdiag.server.store import Store

SLOW_THREADS = 2  # for explanations and comparisons
STATIC = Path(__file__).parent / "static"
Model = Annotated[str | None, Query(description="A model by name; the first if left out.")]


def create(
    models: Sequence[str | Path] | Mapping[str, str | Path],
    *,
    titles: str | Path | None = None,
    title_columns: tuple[str, str] = ("item", "title"),
    limits: Limits | None = None,
    token: str | None = None,
    reload_every: float = 0.0,
    access_log: Callable[[str], None] | None = None,
    say: Callable[[str], None] = lambda text: None,
    counters: Counters | None = None,
    hosts: frozenset[str] | None = None,
    hold: bool = False,
) -> Middleware:
    """The ASGI application that serves the given model files; the first is the default model.

    ``titles`` is a table with the columns ``title_columns``. ``reload_every``: seconds between checks for new
    files. ``access_log`` gets a line of JSON per request, ``say`` a line of text when a file is reloaded.
    ``hosts``: if given, only requests to these names or to this machine's own are answered. ``hold``: files that
    are being overwritten are served from a copy; call ``store.rescue`` on SIGIO.
    """
    limits, counts = limits or Limits(), counters or Counters()
    store = Store(models, titles, title_columns, say, counts.add_reload, hold)
    scorer = Scorer(limits.waiting, counts.add_batch)
    slow = Pool(SLOW_THREADS, "offdiag slow", scorer.handover)
    searches = Pool(1, "offdiag search", scorer.handover)  # one per keystroke: must not queue behind explanations

    @asynccontextmanager
    async def lifespan(app: FastAPI | None = None) -> AsyncIterator[None]:
        stop_watching = store.watch(reload_every) if reload_every else lambda: None
        yield
        stop_watching()
        await asyncio.to_thread(scorer.stop)
        slow.stop()
        searches.stop()

    app = FastAPI(
        title="offdiag",
        version=offdiag.__version__,
        description="Recommendations from linear autoencoders, with reasons.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        responses=_responses(ALWAYS),
    )
    _add_error_handlers(app)
    _add_state_paths(app, store, counts, searches)
    for question in answers.QUESTIONS:
        _add_question(app, question, store, scorer, slow, limits, counts)
    _add_pages(app, store)
    return Middleware(app, counts, limits, token, access_log, store, hosts, lifespan)


ALWAYS = {
    400: "The host name is not one of this service.",
    401: "The bearer token is missing or wrong.",
    413: "The body is too large.",
    503: "Too many requests are waiting.",
    504: "It took too long.",
}
POSTED = {
    400: "The body is not JSON, or the host name is not one of this service.",
    404: "No such model or item.",
    408: "The body arrived too slowly.",
    409: "This model cannot answer that, or the fields contradict each other.",
    422: "The body is not what is described here.",
}
KNOWN = {
    404: "there is nothing at this path; GET /docs lists what there is",
    405: "this path takes another method",
}


def _responses(statuses: Mapping[int, str], answer: type[pydantic.BaseModel] | None = None) -> dict[int | str, Any]:
    """The statuses of a path, as listed in its description."""
    known: dict[int | str, Any] = {s: {"model": schemas.Error, "description": text} for s, text in statuses.items()}
    if answer is not None:
        known[200] = {"model": answer, "description": "The answer."}
    return known


def _add_error_handlers(app: FastAPI) -> None:
    """Every error is one line of JSON; details of internal errors go only to the log."""

    @app.exception_handler(Refusal)
    async def refused(request: Request, problem: Refusal) -> Response:
        return error(problem.status, problem.text, **problem.headers)

    @app.exception_handler(HTTPException)
    async def http(request: Request, problem: HTTPException) -> Response:
        text = KNOWN.get(problem.status_code, str(problem.detail))
        headers = {name.lower(): value for name, value in (problem.headers or {}).items()}
        if headers.get("allow") == "GET":
            headers["allow"] = "GET, HEAD"  # the middleware answers HEAD with GET
        return error(problem.status_code, text, **headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, problem: Exception) -> Response:
        return error(500, "something went wrong here; the log of the service says what")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, problem: RequestValidationError) -> Response:
        return error(422, one_line(problem.errors()))


def _add_state_paths(app: FastAPI, store: Store, counts: Counters, searches: Pool) -> None:
    @app.get("/health", tags=["state"], responses=_responses({}, schemas.Health))
    async def health() -> Response:
        """Whether requests can be answered, and from which models. Needs no token."""
        problems = store.problems
        return json_reply({
            "status": "degraded" if problems else "ok",
            "models": store.names,
            "version": offdiag.__version__,
            "problems": problems,
        })  # fmt: skip

    @app.get("/metrics", tags=["state"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Counters and histograms of all processes of this service, in the Prometheus format."""
        return Response(counts.text(store.models), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/model", tags=["state"], responses=_responses({404: POSTED[404], 422: POSTED[422]}, schemas.Card))
    async def model(model: Model = None) -> Response:
        """The card of a model: class, settings, size of its data, and metrics measured before it was saved."""
        return json_reply(store.card(model))

    @app.get("/items", tags=["state"], responses=_responses({404: POSTED[404], 422: POSTED[422]}, schemas.Found))
    async def items(
        q: Annotated[str, Query(max_length=200, description="Words of a title; empty: the most popular items.")] = "",
        limit: Annotated[int, Query(ge=1, le=200)] = 20,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        model: Model = None,
    ) -> Response:
        """Items whose title contains every word, ignoring case and accents; if there are none, the nearest titles."""
        return json_reply(await searches.run(answers.search, store.get(model), q, offset, limit))

    @app.get("/examples", tags=["state"], responses=_responses({404: POSTED[404], 422: POSTED[422]}, schemas.Examples))
    async def examples(model: Model = None) -> Response:
        """Histories to try the model with, made up from its weights: no user's data."""
        return json_reply(await searches.run(answers.examples, store.get(model)))


def _add_question(
    app: FastAPI,
    question: answers.Question,
    store: Store,
    scorer: Scorer,
    slow: Pool,
    limits: Limits,
    counts: Counters,
) -> None:
    """A path that takes a JSON body, parsed by pydantic itself, which is faster than FastAPI's own way."""
    fields, work = question.body.model_fields, question.work
    on_loop, several = inspect.iscoroutinefunction(work), "models" in fields

    @app.post(
        question.path,
        name=work.__name__,
        description=work.__doc__,
        tags=["ask"],
        responses=_responses(POSTED, question.answer),
        openapi_extra={"requestBody": _describe_body(question, limits)},
    )
    async def reply(request: Request) -> Response:
        try:
            asked: Any = question.body.model_validate_json(await request.body())
        except pydantic.ValidationError as problem:
            details = problem.errors(include_url=False, include_context=False, include_input=False)
            malformed = any(detail["type"] == "json_invalid" for detail in details)
            raise Refusal(400 if malformed else 422, one_line(details)) from None
        limits.check(asked)
        if histories := asked.all_histories:
            request.scope["offdiag.items"] = sum(map(len, histories))
        if on_loop:
            answer = await work(scorer, store.get(asked.model), asked)
        else:
            answer = await slow.run(work, *map(store.get, asked.models if several else [asked.model]), asked)
        counts.add_answer(answer)
        return json_reply(answer)


def _describe_body(question: answers.Question, limits: Limits) -> dict[str, Any]:
    """The schema of a body with the limits of this service."""
    schema = question.body.model_json_schema(ref_template="#/components/schemas/{model}")
    for name, (most, _) in limits.bounds.items():
        part = schema["properties"].get(name, {"type": "null"})
        for form in part.get("anyOf", [part]):
            if form["type"] != "null":
                form["maxItems" if form["type"] == "array" else "maximum"] = most
            if name == "histories" and "items" in form:
                form["items"]["maxItems"] = limits.history
    return {"required": True, "content": {"application/json": {"schema": schema, "example": question.example}}}


def _add_pages(app: FastAPI, store: Store) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        pictured = any("image" in served.shown for served in store.models)
        return HTMLResponse((STATIC / "index.html").read_bytes(), headers=pages.headers(pictured))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(pages.reference(app.openapi()), headers=pages.SAFE)

    app.mount("/static", pages.Static(directory=STATIC, check_dir=False), name="static")
