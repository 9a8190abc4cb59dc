"""The service that the tests of HTTP share."""

import pytest

from tests.fixtures.serving import Service


@pytest.fixture(scope="session")
def service(one_model):
    with Service(one_model, "model.od", "--timeout", 30) as running:
        yield running
    assert "Traceback" not in running.log
