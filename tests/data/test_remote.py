"""Files elsewhere: a real HTTP server, and a store in memory for what needs a bucket."""

import importlib.util
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import fsspec
import pytest

import offdiag as od
from offdiag.data import remote, sql
from tests.fixtures.tables import entries, refused, write

TEXT = "user,item\n1,5\n2,6\n"
TRUTH = {(1, 5): 1, (2, 6): 1}


@pytest.fixture
def server(tmp_path):
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_GET(self):
            if self.path.startswith("/short"):
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(TEXT.encode())
            else:
                super().do_GET()

    write(tmp_path / "t.csv.gz", TEXT)
    write(tmp_path / "export", '{"user": 1, "item": 5}\n{"user": 2, "item": 6}\n')
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path))) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_a_file_is_fetched_and_its_format_found(server):
    assert entries(od.read(f"{server}/t.csv.gz")) == TRUTH
    assert entries(od.read(f"{server}/export?format=lines")) == TRUTH
    assert entries(od.read([f"{server}/t.csv.gz", f"{server}/export"], text_ids=False)) == TRUTH


def test_errors_of_the_web_are_one_line_without_secrets(server):
    said = refused(lambda: od.read(f"{server}/none.csv?token=secret"), "none.csv", "404", "check the address")
    assert "secret" not in said
    refused(lambda: od.read(f"{server}/short.csv"), "short.csv")
    refused(lambda: od.read("http://127.0.0.1:9/t.csv"), "t.csv from http://127.0.0.1")


def test_files_and_folders_of_a_store():
    for name in ("part-0.csv", "part-1.csv"):
        with fsspec.open(f"memory://bucket/day=2024-01-0{name[5:6]}/{name}", "w") as file:
            file.write(TEXT if name == "part-0.csv" else "user,item\n3,7\n")
    assert entries(od.read("memory://bucket")) == TRUTH | {(3, 7): 1}
    assert entries(od.read("memory://bucket/*/part-1.csv")) == {(3, 7): 1}
    assert entries(od.read("memory://bucket/", where="day = '2024-01-01'")) == {(3, 7): 1}
    refused(lambda: od.read("memory://bucket/none.csv"), "none.csv", "check the address")


@pytest.mark.parametrize(("scheme", "package"), [("s3", "s3fs"), ("gs", "gcsfs")])
def test_a_store_without_its_package_names_the_extra(scheme, package):
    if importlib.util.find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    refused(
        lambda: od.read(f"{scheme}://bucket/t.csv"), f"reads {scheme}:// addresses", "pip install 'offdiag[remote]'"
    )


def test_addresses_are_not_databases():
    for address in ("https://h/a.csv", "s3://b/a.csv", "gs://b/a.csv", "HTTP://h/a"):
        assert remote.is_address(address)
        assert not sql.is_source(address)
    assert not remote.is_address("postgresql://h/d")
    assert sql.is_source("postgresql://h/d")
    assert remote.name_of("https://me:pw@host/") == "host"
