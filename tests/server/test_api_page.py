"""docs/api.md is what the OpenAPI document says."""

from tests import api_page


def test_the_page_is_the_document_of_the_server() -> None:
    assert api_page.PAGE.read_text() == api_page.page(), "`python -m tests.api_page` writes it"
