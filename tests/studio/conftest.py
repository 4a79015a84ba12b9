"""A studio in this process, for the tests of this folder."""

import warnings

import pytest

pytest.importorskip("fastapi", reason="pip install 'pomp-rl[studio]'")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the client's own dependencies
    from fastapi.testclient import TestClient

from unpacking import HOME

from pomp.studio.app import make_app


@pytest.fixture
def client(tmp_path):
    """A client of a studio whose root is the test's folder."""
    with TestClient(make_app(tmp_path), base_url=HOME, raise_server_exceptions=True) as client:
        yield client
