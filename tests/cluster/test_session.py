"""A cluster that cannot be reached or used gives one line, and never a hang."""

import contextlib
import socket
import subprocess
import sys
import threading
import time

import pytest

import offdiag as od
from offdiag.cluster import session

pytestmark = pytest.mark.slow
distributed = pytest.importorskip("distributed", reason="needs the extra 'cluster'")


def enter(address, **options):
    with od.cluster.connect(address, **options):
        pass


@pytest.mark.parametrize(
    ("address", "options", "words"),
    [
        ("tcp://127.0.0.1:9", {"timeout": 1}, "no Dask scheduler answered"),
        ("tcp://host.invalid:8786", {"timeout": 1}, "no Dask scheduler answered"),
        ("ftp://127.0.0.1:8786", {"timeout": 1}, "no Dask scheduler answered"),
        ("local:x", {}, "local:N"),
        ("local:0", {}, "local:N"),
        ("local:2", {"workers": 3}, "give one"),
        (None, {"workers": 0}, "at least 1"),
        ("local:1", {"memory_limit": "much"}, "memory_limit"),
        ("tcp://127.0.0.1:9", {"workers": 2}, "leave them out"),
    ],
)
def test_a_wrong_address_or_option_gives_a_one_line_error(mistake, address, options, words):
    assert words in mistake(enter, address, **options)


@pytest.mark.parametrize("speaks", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_port_without_a_scheduler_gives_an_error_and_no_hang(mistake, speaks):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with contextlib.suppress(OSError):
                connections.append(server.accept()[0])
                connections[-1].sendall(speaks)

        connections = []
        threading.Thread(target=answer, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert "no Dask scheduler answered" in mistake(enter, address, timeout=1)
        for connection in connections:
            connection.close()


def test_a_call_that_hangs_is_given_up():
    with pytest.raises(TimeoutError, match="no answer"):
        session.within(0.05, lambda: time.sleep(5))
    assert session.within(5, lambda: 3) == 3
    with pytest.raises(ValueError, match="own"):
        session.within(5, lambda: int("own"))


def test_ctrl_c_reaches_the_program_and_not_its_workers(tmp_path):
    """A terminal sends the signal to all of them; workers would print tracebacks."""
    script = tmp_path / "script.py"
    script.write_text(
        """
import os, signal, time
import offdiag as od

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background programs without one
    try:
        with od.cluster.connect("local:1", memory_limit="1GB", timeout=200) as client:
            os.killpg(0, signal.SIGINT)
            for _ in range(600):  # not one long sleep: a signal that another thread takes does not end it
                time.sleep(0.1)
    except KeyboardInterrupt:
        print("interrupted")
"""
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, start_new_session=True, timeout=300)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "interrupted\n", "")


def test_without_a_client_or_the_extra_the_error_names_the_remedy(mistake, monkeypatch):
    inter = od.synthetic.interactions(20, 10, 60, seed=0)
    monkeypatch.setattr(distributed, "get_client", lambda: (_ for _ in ()).throw(ValueError("none")))
    assert "od.cluster.connect" in mistake(od.cluster.gram, inter)
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "offdiag[cluster]" in mistake(od.cluster.gram, inter)


def test_another_version_on_the_workers_is_named(client, monkeypatch):
    monkeypatch.setattr(od, "__version__", "0.0.7")
    with pytest.raises(od.OffdiagError, match=r"expected offdiag 0\.0\.7 on every worker"):
        od.cluster.session.check_workers(client)


def test_a_worker_that_has_just_died_stops_nobody(client, monkeypatch):
    """For a moment the scheduler still lists it; one that answers but cannot run our code is a mistake."""
    answers = client.run(od.cluster.session.versions)
    gone, cannot = dict(answers, dead=ConnectionResetError("gone")), dict(answers, other=ImportError("no such module"))
    monkeypatch.setattr(client, "run", lambda *args, **options: gone)
    od.cluster.session.check_workers(client)
    monkeypatch.setattr(client, "run", lambda *args, **options: cannot)
    with pytest.raises(od.OffdiagError, match="no such module.*install the same version"):
        od.cluster.session.check_workers(client)
