import pytest

from tests.fixtures.threads import one_thread

__all__ = ["one_thread"]


@pytest.fixture(scope="class")
def reported():
    """The stages that the reproduction of a class has reported."""
    return []


@pytest.fixture(scope="class")
def found(request, reported):
    """The paper of a class (tests/laws/reproduction.py), reproduced at its small size."""
    return request.cls.run(progress=lambda *stage: reported.append(stage))
