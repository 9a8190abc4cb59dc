"""The application: paths, what they take and give, and what goes wrong, told as OpenAPI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pydantic
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

import offdiag
from offdiag.server import answers, pages, requests
from offdiag.server.batching import Scorer
from offdiag.server.handover import Handover
from offdiag.server.limits import Limits, Refused
from offdiag.server.metrics import Counters
from offdiag.server.middleware import Gate
from offdiag.server.replies import error, json_reply, one_line
from offdiag.server.store import Store, about

ASIDE = 2  # threads for explanations and comparisons
ASIDE_WAITING = 64  # of those that may wait; more are turned away at once
STATIC = Path(__file__).parent / "static"
Model = Annotated[str | None, Query(description="A model by name; the first if left out.")]
Body = TypeVar("Body", bound=requests.Request)


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
) -> Gate:
    """The ASGI application that serves the given model files; the first is the default model.

    ``titles`` is a table with the columns ``title_columns``. ``reload_every`` looks for new files every so many
    seconds. ``access_log`` gets a line of JSON per request, ``say`` a line of text when a file is loaded again.
    ``hosts``: if given, only requests to these names are answered, and to this machine by its own. ``hold``: files that
    are being overwritten are served from a copy; ``store.rescue`` is to be called on SIGIO.
    """
    bounds, counts = limits or Limits(), counters or Counters()
    store = models if isinstance(models, Store) else Store(models, titles, title_columns, say, counts.reload, hold)
    scorer = Scorer(bounds.waiting, counts.batch)
    aside = ThreadPoolExecutor(ASIDE, "offdiag aside")
    searching = ThreadPoolExecutor(1, "offdiag search")  # a page asks at every key: not behind long explanations

    @asynccontextmanager
    async def lifespan(app: FastAPI | None = None) -> AsyncIterator[None]:
        scorer.start()
        stop_watching = store.watch(reload_every) if reload_every else lambda: None
        yield
        stop_watching()
        await asyncio.to_thread(scorer.stop)
        for pool in (aside, searching):
            pool.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(
        title="offdiag",
        version=offdiag.__version__,
        description="Recommendations from linear autoencoders, with reasons.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        responses={status: {"model": requests.Error, "description": text} for status, text in ALWAYS.items()},
    )
    _errors(app)
    _state(app, store, counts, searching, scorer.handover)
    _questions(app, store, scorer, bounds, aside, counts)
    _pages(app)
    return Gate(app, counts, bounds, token, access_log, store, hosts, lifespan)


ALWAYS = {
    400: "The name of the host is none of this service.",
    401: "The bearer token is missing or wrong.",
    413: "The body is too large.",
    503: "Too many requests are waiting.",
    504: "It took too long.",
}
POSTED = {
    400: "The body is no JSON, or the name of the host is none of this service.",
    404: "No such model or item.",
    408: "The body came too slowly.",
    409: "This model cannot answer that.",
    422: "The body is not what is described here.",
}


def _told(statuses: Mapping[int, str], answer: type[pydantic.BaseModel] | None = None) -> dict[int | str, Any]:
    told: dict[int | str, Any] = {s: {"model": requests.Error, "description": text} for s, text in statuses.items()}
    if answer is not None:
        told[200] = {"model": answer, "description": "The answer."}
    return told


async def _in(aside: ThreadPoolExecutor, handover: Handover, work: Callable[..., Any], *args: Any) -> Any:
    """Work that takes longer than a list, beside the event loop; what has not begun is dropped with its request."""
    if aside._work_queue.qsize() >= ASIDE_WAITING:
        raise Refused(503, "too many requests are waiting; try again in a moment", retry_after="1")
    with handover:
        return await asyncio.get_running_loop().run_in_executor(aside, work, *args)


def _errors(app: FastAPI) -> None:
    """Every error is one line of JSON; what went wrong inside is for the log only."""

    @app.exception_handler(Refused)
    async def refused(request: Request, problem: Refused) -> Response:
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
            headers["allow"] = "GET, HEAD"  # the gate makes one of the other
        return error(problem.status_code, text, **headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, problem: Exception) -> Response:
        return error(500, "something went wrong here; the log of the service tells what")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, problem: RequestValidationError) -> Response:
        return error(422, one_line(problem.errors()))


def _state(app: FastAPI, store: Store, counts: Counters, aside: ThreadPoolExecutor, handover: Handover) -> None:
    @app.get("/health", tags=["state"], responses=_told({}, requests.Health))
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
        """Counters and histograms of all processes of this service, as Prometheus reads them."""
        return Response(counts.text(store.models), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/model", tags=["state"], responses=_told({404: POSTED[404], 422: POSTED[422]}, requests.Card))
    async def model(model: Model = None) -> Response:
        """The card of a model: class, settings, size of its data, metrics measured before it was saved."""
        return json_reply(about(store, model))

    @app.get("/items", tags=["state"], responses=_told({404: POSTED[404], 422: POSTED[422]}, requests.Found))
    async def items(
        q: Annotated[str, Query(max_length=200, description="Words of a title; empty: the most popular items.")] = "",
        limit: Annotated[int, Query(ge=1, le=200)] = 20,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        model: Model = None,
    ) -> Response:
        """Items whose title holds every word; capitals and accents do not count."""
        served = store.get(model)
        return json_reply(await _in(aside, handover, answers.search, served, q, offset, limit))


def _questions(
    app: FastAPI, store: Store, scorer: Scorer, bounds: Limits, aside: ThreadPoolExecutor, counts: Counters
) -> None:
    def post(
        path: str, body: type[requests.Request], answer: type[pydantic.BaseModel], example: dict[str, Any]
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A path that takes a JSON body. It is read by ``_parsed``: faster, and with the limits."""
        schema = body.model_json_schema(ref_template="#/components/schemas/{model}")
        _bounded(schema, bounds)
        content = {"application/json": {"schema": schema, "example": example}}
        return app.post(
            path,
            tags=["ask"],
            responses=_told(POSTED, answer),
            openapi_extra={"requestBody": {"required": True, "content": content}},
        )

    def checked(history: Sequence[Any], k: int = 1, **filters: Sequence[Any] | None) -> None:
        if len(history) > bounds.history:
            raise Refused(422, f"history: at most {bounds.history} ids, received {len(history)}")
        if k > bounds.k:
            raise Refused(422, f"k: at most {bounds.k}, received {k}")
        for name, ids in filters.items():
            if ids is not None and len(ids) > bounds.filter:
                raise Refused(422, f"{name}: at most {bounds.filter} ids, received {len(ids)}")

    def counted(answer: dict[str, Any], history: Sequence[Any]) -> Response:
        """What the lists had to leave out, or to replace, is counted: nobody may look at the answers."""
        several = "lists" in answer
        counts.unknown(sum(map(len, answer["unknown"])) if several else len(answer["unknown"]))
        for fallback in answer["fallback"] if several else [answer.get("fallback")]:
            if fallback is not None:
                counts.fallback(bool(history))
        return json_reply(answer)

    @post("/recommend", requests.Recommend, requests.Recommendations, {"history": [3, 7], "k": 5, "reasons": 2})
    async def recommend(request: Request) -> Response:
        """The best items for a history, best first."""
        asked = await _parsed(request, requests.Recommend)
        checked(asked.history, asked.k, block=asked.block, allow=asked.allow)
        served = store.get(asked.model)
        request.scope["offdiag.items"] = len(asked.history)
        return counted(await answers.recommend(scorer, served, asked), asked.history)

    @post("/similar", requests.Similar, requests.Likes, {"item": 3, "k": 5})
    async def similar(request: Request) -> Response:
        """The items that somebody with only this one would be recommended."""
        asked = await _parsed(request, requests.Similar)
        checked([], asked.k)
        return json_reply(await answers.similar(scorer, store.get(asked.model), asked))

    @post("/explain", requests.Explain, requests.Explanation, {"history": [3, 7], "item": 5})
    async def explain(request: Request) -> Response:
        """What each item of the history adds to the score of an item, and where it would stand without it."""
        asked = await _parsed(request, requests.Explain)
        checked(asked.history)
        request.scope["offdiag.items"] = len(asked.history)
        return counted(await _in(aside, scorer.handover, answers.explain, store.get(asked.model), asked), asked.history)

    @post("/pair", requests.Pair, requests.PairReason, {"item": 3, "other": 7})
    async def pair(request: Request) -> Response:
        """What one item's weight on another says beyond how often both are used together."""
        asked = await _parsed(request, requests.Pair)
        return json_reply(await _in(aside, scorer.handover, answers.pair, store.get(asked.model), asked))

    @post("/compare", requests.Compare, requests.Comparison, {"history": [3, 7], "k": 5, "models": ["a", "b"]})
    async def compare(request: Request) -> Response:
        """The lists of two models side by side, with the place of each item in the other list."""
        asked = await _parsed(request, requests.Compare)
        checked(asked.history, asked.k, block=asked.block)
        request.scope["offdiag.items"] = len(asked.history)
        pair = (store.get(asked.models[0]), store.get(asked.models[1]))
        return counted(await _in(aside, scorer.handover, answers.compare, pair, asked), asked.history)


async def _parsed(request: Request, form: type[Body]) -> Body:
    """The body, held against its description. The gate has bounded its size and time."""
    body = await request.body()
    try:
        return form.model_validate_json(body)
    except pydantic.ValidationError as problem:
        details = problem.errors(include_url=False, include_context=False, include_input=False)
        malformed = any(detail["type"] == "json_invalid" for detail in details)
        raise Refused(400 if malformed else 422, one_line(details)) from None


def _bounded(schema: dict[str, Any], bounds: Limits) -> None:
    """The limits of this service, in the description of a body."""
    properties = schema["properties"]
    if "k" in properties:
        properties["k"]["maximum"] = bounds.k
    if "history" in properties:
        properties["history"]["maxItems"] = bounds.history
    for name in {"allow", "block"} & set(properties):
        for part in properties[name].get("anyOf", [properties[name]]):
            if part.get("type") == "array":
                part["maxItems"] = bounds.filter


def _pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return pages.front(STATIC)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(pages.reference(app.openapi()), headers=pages.SAFE)

    app.mount("/static", pages.Static(directory=STATIC, check_dir=False), name="static")
