"""A browser, and the service whose page it shows."""

from urllib.parse import urlsplit

import pytest

import offdiag as od
from tests.fixtures.serving import Service
from tests.fixtures.titled_models import make_titled_models


@pytest.fixture(scope="package")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="package")
def titles(folder):
    return make_titled_models(folder)


@pytest.fixture(scope="package")
def exact(folder, titles):
    """The model that the page shows first."""
    return od.load(folder / "exact.od")


@pytest.fixture(scope="package")
def popular(exact):
    """Its most popular items."""
    return exact.recommend([[]], k=3).items[0].tolist()


@pytest.fixture(scope="package")
def service(folder, titles):
    with Service(folder, "exact.od", "sparse.od", "--titles", "titles.csv") as running:
        yield running


@pytest.fixture(scope="package")
def browser():
    """Closed before other tests run: the event loop of playwright would be in their way."""
    from tests.fixtures.browser import chromium

    with chromium() as running:
        yield running


@pytest.fixture
def visit(browser, service):
    """The page in a new window once its list has loaded. It may not complain or ask another host until the end."""
    from tests.fixtures.browser import Watched, listed

    windows = []

    def open_page(options=None, url=service.url, before=lambda page: None, loads=True, **chosen):
        windows.append(Watched(browser, **options or {}))
        before(windows[-1].page)
        page = windows[-1].open(url, **chosen)
        if loads:
            listed(page)
        return page

    yield open_page
    for each in windows:
        each.context.close()
        assert each.hosts <= {urlsplit(service.url).netloc}, "the page asked another host"
        assert each.complaints == []
        assert each.page.is_closed()
