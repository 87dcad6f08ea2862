"""Every recipe of the cookbook works as written."""

from pathlib import Path

import pytest

from tests.pages import ROOT, Section, sections

RECIPES = sections(ROOT / "docs" / "cookbook.md")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_a_recipe_works_as_written(recipe: Section, tmp_path: Path) -> None:
    shown = recipe.run(tmp_path)

    assert shown.exit_code == 0, shown.text
    assert shown.missing(recipe.expected) == [], shown.text


def test_there_are_twenty_recipes_and_each_shows_its_result() -> None:
    assert len(RECIPES) == 20
    assert [
        recipe.title for recipe in RECIPES if not (recipe.files and recipe.script and recipe.expected)
    ] == []
