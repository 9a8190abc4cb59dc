"""A private PostgreSQL for the tests: its own folder, a free loopback port, a password, gone at the end."""

import getpass
import glob
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path


def programs():
    """The folder of initdb and pg_ctl; None where PostgreSQL is not installed."""
    found = shutil.which("initdb")
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda p: int(Path(p).parts[-3].split(".")[0]))
    if found is None and folders:
        found = folders[-1]
    return None if found is None else Path(found).parent


class Server:
    """`with Server() as server`: server.url is a connection string with a password in it."""

    def __enter__(self):
        self.place = Path(tempfile.mkdtemp(prefix="offdiag-pg-"))
        self.password = "s3cret-" + secrets.token_hex(8)
        password_file = self.place / "password"
        password_file.write_text(self.password)
        # PostgreSQL refuses to run as root; the package made a user for it.
        self.as_user = ["runuser", "-u", "postgres", "--"] if getpass.getuser() == "root" else []
        if self.as_user:
            shutil.chown(self.place, "postgres")
            shutil.chown(password_file, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"postgresql://tester:{self.password}@127.0.0.1:{self.port}/postgres"
        self._run(
            "initdb", "-U", "tester", "-A", "scram-sha-256", f"--pwfile={password_file}", "-E", "UTF8", "--no-sync"
        )
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.place, ignore_errors=True)

    def start(self):
        settings = f"-p {self.port} -k {self.place} -c listen_addresses=127.0.0.1 -c fsync=off -c max_wal_size=64MB"
        self._run("pg_ctl", "-w", "-o", settings, "-l", str(self.place / "log"), "start")

    def stop(self):
        if (self.place / "data" / "postmaster.pid").exists():
            self._run("pg_ctl", "-m", "immediate", "-w", "stop")

    def execute(self, *statements):
        """Run statements, each in its own transaction; the rows of the last one."""
        import adbc_driver_postgresql.dbapi

        rows = []
        with adbc_driver_postgresql.dbapi.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                with connection.cursor() as cursor:
                    cursor.execute(statement)
                    rows = cursor.fetchall() if cursor.description else []
        return rows

    def _run(self, program, *arguments):
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        command = [*self.as_user, str(programs() / program), "-D", str(self.place / "data"), *arguments]
        # Its children keep the streams open, so they go nowhere.
        ran = subprocess.run(
            command, env=environment, cwd=self.place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60
        )
        assert ran.returncode == 0, f"{program} failed with {ran.returncode}"
