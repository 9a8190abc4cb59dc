"""Running the service: one process, or several that share the socket, the mapped models and the counters."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from offdiag.errors import OffdiagError
from offdiag.server.limits import Limits

if TYPE_CHECKING:
    from offdiag.server.logs import AccessLog
    from offdiag.server.metrics import Counters
    from offdiag.server.middleware import Middleware

BACKLOG = 2048
FILES = 64  # open files besides connections
# Seconds after which a busy thread lets another one run: Python's default of 5 ms would hold up the scorer.
SWITCH = 0.001


@dataclass(frozen=True)
class Service:
    """Everything a process needs to know; passed to every worker."""

    models: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 8000
    titles: str | None = None
    title_columns: tuple[str, str] = ("item", "title")
    workers: int = 1
    token: str | None = field(default=None, repr=False)
    limits: Limits = field(default_factory=Limits)
    reload_every: float = 2.0
    access_log: str | None = None
    hosts: tuple[str, ...] = ()  # names by which clients reach the service, in addition to those of this machine


def serve(service: Service, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, finishing the requests in flight. ``say`` prints notes before that."""
    require_extra()
    with listen(service.host, service.port) as listener:
        if service.token is None and not _is_loopback(listener):
            say(f"note: anyone who reaches {service.host} can use this service; --token-env makes it require a token")
        if service.workers == 1:
            from offdiag.server.metrics import Counters

            work(service, listener, Counters(), lambda: say(_address(service, listener)))
        else:
            from offdiag.server import supervisor

            supervisor.supervise(service, listener, say, _address(service, listener))


def require_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise OffdiagError(f"the service needs {error.name}; install it with: pip install 'offdiag[serve]'") from None


def listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OffdiagError(f"cannot listen on {host} port {port}: {reason}; choose another --host or --port") from None
    return listener


def _is_loopback(listener: socket.socket) -> bool:
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


def _host_names(service: Service, listener: socket.socket) -> frozenset[str] | None:
    """Pages of other sites can reach a loopback service through a name that resolves to it; a token keeps them out."""
    if not service.hosts and (service.token is not None or not _is_loopback(listener)):
        return None
    return frozenset(name.lower().rstrip(".") for name in service.hosts)


def _address(service: Service, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"serving {', '.join(service.models)} at http://{shown}:{port} (Ctrl-C stops)"


def work(
    service: Service,
    listener: socket.socket,
    counters: Counters,
    ready: Callable[[], None],
    lifeline: int | None = None,
) -> None:
    """Run one serving process, from loading the models to the end of its last request.

    It also ends when ``lifeline``, a pipe to the process that started it, is closed at the other end.
    """
    from offdiag.server.app import create
    from offdiag.server.logs import AccessLog, OperatorLog

    log = None if service.access_log is None else AccessLog(service.access_log, counters.drop_line)
    operator = OperatorLog()
    logging.getLogger().addHandler(operator.handler())
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # files are leased from now on; a writer waits for `rescue`
    app = create(
        service.models,
        hold=True,
        titles=service.titles,
        title_columns=service.title_columns,
        limits=_cap_connections(service.limits),
        token=service.token,
        reload_every=service.reload_every,
        access_log=log,
        say=operator,
        counters=counters,
        hosts=_host_names(service, listener),
    )
    operator.flush()  # messages about loading come before the address
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()  # current objects stay: collections after a reload need not scan them
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(app, listener, log, ready, lifeline))
    for lines in (operator, log):
        if lines is not None:
            lines.flush()


def _cap_connections(limits: Limits) -> Limits:
    """Cap the connections: each is an open file, and a few more are needed for models and logs."""
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most == resource.RLIM_INFINITY:
        return limits
    return replace(limits, connections=min(limits.connections, max(most - FILES, 1)))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # slower, otherwise the same
        return None
    return uvloop.new_event_loop


async def _serve(
    app: Middleware,
    listener: socket.socket,
    log: AccessLog | None,
    ready: Callable[[], None],
    lifeline: int | None,
) -> None:
    """Serve from the first connection to the end of the last request."""
    from offdiag.server.http.hub import Hub

    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def reload() -> None:
        if log is not None:
            log.reopen()
        app.store.reload(force=True)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    for number, work in ((signal.SIGHUP, reload), (signal.SIGIO, app.store.rescue)):
        loop.add_signal_handler(number, _start_thread, work)
    if lifeline is not None:
        loop.add_reader(lifeline, stop.set)
    async with app.lifespan():
        hub = Hub(app, app.limits, app.counters)
        listener.setblocking(False)
        hub.listen(listener)
        _start_thread(app.store.rescue)  # for writers that arrived since the files were loaded
        ready()
        await stop.wait()
        if lifeline is not None:
            loop.remove_reader(lifeline)
        loop.remove_reader(listener.fileno())
        listener.close()
        await hub.close(app.limits.seconds + 5)


def _start_thread(work: Callable[[], None]) -> None:
    """Run in a thread that does not delay the exit of the process, since a disk may hang."""
    threading.Thread(target=work, daemon=True).start()
