"""The application: its paths, their requests, answers and errors, described as OpenAPI."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import pydantic
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

import offdiag
from offdiag.server import answers, pages, schemas
from offdiag.server.batching import Scorer
from offdiag.server.handover import Handover
from offdiag.server.limits import Limits, Refusal
from offdiag.server.metrics import Counters
from offdiag.server.middleware import Middleware
from offdiag.server.replies import error, json_reply, one_line
from offdiag.server.store import Store

SLOW_THREADS = 2  # for explanations and comparisons
SLOW_WAITING = 64  # how many of them may wait; more are turned away at once
STATIC = Path(__file__).parent / "static"
Model = Annotated[str | None, Query(description="A model by name; the first if left out.")]
Body = TypeVar("Body", bound=schemas.Request)
P = ParamSpec("P")
Answer = TypeVar("Answer")


def create(
    models: Store | Sequence[str | Path] | Mapping[str, str | Path],
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
    store = models if isinstance(models, Store) else Store(models, titles, title_columns, say, counts.add_reload, hold)
    scorer = Scorer(limits.waiting, counts.add_batch)
    slow = ThreadPoolExecutor(SLOW_THREADS, "offdiag slow")
    searches = ThreadPoolExecutor(1, "offdiag search")  # one per keystroke: must not queue behind explanations

    @asynccontextmanager
    async def lifespan(app: FastAPI | None = None) -> AsyncIterator[None]:
        scorer.start()
        stop_watching = store.watch(reload_every) if reload_every else lambda: None
        yield
        stop_watching()
        await asyncio.to_thread(scorer.stop)
        for pool in (slow, searches):
            pool.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(
        title="offdiag",
        version=offdiag.__version__,
        description="Recommendations from linear autoencoders, with reasons.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        responses={status: {"model": schemas.Error, "description": text} for status, text in ALWAYS.items()},
    )
    _add_error_handlers(app)
    _add_state_paths(app, store, counts, searches, scorer.handover)
    _add_question_paths(app, store, scorer, limits, slow, counts)
    _add_pages(app)
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
    408: "The body came too slowly.",
    409: "This model cannot answer that.",
    422: "The body is not what is described here.",
}


def _responses(statuses: Mapping[int, str], answer: type[pydantic.BaseModel] | None = None) -> dict[int | str, Any]:
    """The statuses of a path, as listed in its description."""
    known: dict[int | str, Any] = {s: {"model": schemas.Error, "description": text} for s, text in statuses.items()}
    if answer is not None:
        known[200] = {"model": answer, "description": "The answer."}
    return known


async def _run_in(
    pool: ThreadPoolExecutor, handover: Handover, work: Callable[P, Answer], *args: P.args, **words: P.kwargs
) -> Answer:
    """Run slow work outside the event loop; work that has not started is dropped with its request."""
    if pool._work_queue.qsize() >= SLOW_WAITING:
        raise Refusal(503, "too many requests are waiting; try again in a moment", retry_after="1")
    with handover:
        return await asyncio.get_running_loop().run_in_executor(pool, functools.partial(work, *args, **words))


def _add_error_handlers(app: FastAPI) -> None:
    """Every error is one line of JSON; details of internal errors go only to the log."""

    @app.exception_handler(Refusal)
    async def refused(request: Request, problem: Refusal) -> Response:
        return error(problem.status, problem.text, **problem.headers)

    @app.exception_handler(HTTPException)
    async def http(request: Request, problem: HTTPException) -> Response:
        known = {
            404: "there is nothing at this path; GET /docs lists what there is",
            405: "this path takes another method",
        }
        text = known.get(problem.status_code, str(problem.detail))
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


def _add_state_paths(
    app: FastAPI, store: Store, counts: Counters, searches: ThreadPoolExecutor, handover: Handover
) -> None:
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
        """Items whose title contains every word; case and accents are ignored."""
        served = store.get(model)
        return json_reply(await _run_in(searches, handover, answers.search, served, q, offset, limit))


def _add_question_paths(
    app: FastAPI, store: Store, scorer: Scorer, limits: Limits, slow: ThreadPoolExecutor, counts: Counters
) -> None:
    def post(
        path: str, body: type[schemas.Request], answer: type[pydantic.BaseModel], example: dict[str, Any]
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A path that takes a JSON body, read by ``_parse_body``, which is faster and applies the limits."""
        schema = body.model_json_schema(ref_template="#/components/schemas/{model}")
        _add_limits(schema, limits)
        content = {"application/json": {"schema": schema, "example": example}}
        return app.post(
            path,
            tags=["ask"],
            responses=_responses(POSTED, answer),
            openapi_extra={"requestBody": {"required": True, "content": content}},
        )

    def check_limits(history: Sequence[Any], k: int = 1, **filters: Sequence[Any] | None) -> None:
        if len(history) > limits.history:
            raise Refusal(422, f"history: at most {limits.history} ids, received {len(history)}")
        if k > limits.k:
            raise Refusal(422, f"k: at most {limits.k}, received {k}")
        for name, ids in filters.items():
            if ids is not None and len(ids) > limits.filter:
                raise Refusal(422, f"{name}: at most {limits.filter} ids, received {len(ids)}")

    def count_and_reply(answer: dict[str, Any], history: Sequence[Any]) -> Response:
        """Count unknown ids and fallbacks, because the answers themselves may never be looked at."""
        several = "lists" in answer
        counts.add_unknown(sum(map(len, answer["unknown"])) if several else len(answer["unknown"]))
        for fallback in answer["fallback"] if several else [answer.get("fallback")]:
            if fallback is not None:
                counts.add_fallback(bool(history))
        return json_reply(answer)

    @post("/recommend", schemas.Recommend, schemas.Recommendations, {"history": [3, 7], "k": 5, "reasons": 2})
    async def recommend(request: Request) -> Response:
        """The best items for a history, best first."""
        asked = await _parse_body(request, schemas.Recommend)
        check_limits(asked.history, asked.k, block=asked.block, allow=asked.allow)
        served = store.get(asked.model)
        request.scope["offdiag.items"] = len(asked.history)
        return count_and_reply(await answers.recommend(scorer, served, asked), asked.history)

    @post("/similar", schemas.Similar, schemas.Likes, {"item": 3, "k": 5})
    async def similar(request: Request) -> Response:
        """The items recommended to a user who has only this item."""
        asked = await _parse_body(request, schemas.Similar)
        check_limits([], asked.k)
        return json_reply(await answers.similar(scorer, store.get(asked.model), asked))

    @post("/explain", schemas.Explain, schemas.Explanation, {"history": [3, 7], "item": 5})
    async def explain(request: Request) -> Response:
        """What each item of the history adds to the score of an item, and the item's rank without it."""
        asked = await _parse_body(request, schemas.Explain)
        check_limits(asked.history)
        request.scope["offdiag.items"] = len(asked.history)
        return count_and_reply(
            await _run_in(slow, scorer.handover, answers.explain, store.get(asked.model), asked), asked.history
        )

    @post("/pair", schemas.Pair, schemas.PairReason, {"item": 3, "other": 7})
    async def pair(request: Request) -> Response:
        """What one item's weight on another shows beyond how often the two are used together."""
        asked = await _parse_body(request, schemas.Pair)
        return json_reply(await _run_in(slow, scorer.handover, answers.pair, store.get(asked.model), asked))

    @post("/compare", schemas.Compare, schemas.Comparison, {"history": [3, 7], "k": 5, "models": ["a", "b"]})
    async def compare(request: Request) -> Response:
        """The lists of two models side by side, with the rank of each item in the other list."""
        asked = await _parse_body(request, schemas.Compare)
        check_limits(asked.history, asked.k, block=asked.block)
        request.scope["offdiag.items"] = len(asked.history)
        pair = (store.get(asked.models[0]), store.get(asked.models[1]))
        return count_and_reply(await _run_in(slow, scorer.handover, answers.compare, pair, asked), asked.history)


async def _parse_body(request: Request, form: type[Body]) -> Body:
    """The body, validated against its schema. The middleware has bounded its size and time."""
    body = await request.body()
    try:
        return form.model_validate_json(body)
    except pydantic.ValidationError as problem:
        details = problem.errors(include_url=False, include_context=False, include_input=False)
        malformed = any(detail["type"] == "json_invalid" for detail in details)
        raise Refusal(400 if malformed else 422, one_line(details)) from None


def _add_limits(schema: dict[str, Any], limits: Limits) -> None:
    """Add the limits of this service to the schema of a body."""
    properties = schema["properties"]
    if "k" in properties:
        properties["k"]["maximum"] = limits.k
    if "history" in properties:
        properties["history"]["maxItems"] = limits.history
    for name in {"allow", "block"} & set(properties):
        for part in properties[name].get("anyOf", [properties[name]]):
            if part.get("type") == "array":
                part["maxItems"] = limits.filter


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return pages.front(STATIC)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(pages.reference(app.openapi()), headers=pages.SAFE)

    app.mount("/static", pages.Static(directory=STATIC, check_dir=False), name="static")
