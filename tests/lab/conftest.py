import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    """Matrices this small run slower when shared among busy cores."""
    with threadpool_limits(1):
        yield
