import re
import shutil
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from src.data import texts
from src.errors import DataError

MARKDOWN = r"""# The Play

### SCENE I. A room & c.

*Enter ROMEO, and~
others.*


**ROMEO**~~
_\[Aside]_~~
Is the day so young?~~
'Ladies,'\--or 'Fair

_Exit_
""".replace("~", " ")

PLAIN = """The Play

SCENE I. A room & c.

Enter ROMEO, and
others.

ROMEO:
[Aside]
Is the day so young?
'Ladies,'--or 'Fair

Exit
"""


def package() -> Path:
    spec = find_spec(texts.PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def test_markdown_becomes_play_text() -> None:
    assert texts.plain_text(MARKDOWN) == PLAIN


def test_plain_play_text_stays_as_it_is() -> None:
    assert texts.plain_text(PLAIN) == PLAIN


def test_no_word_is_lost_and_no_mark_is_left() -> None:
    train, validation = texts.read_plays()
    text = train + validation
    assert not re.search(r"[*_\\#]| \n|\n\n\n", text)
    raw = "".join(path.read_text(encoding="utf-8") for path in package().glob("plays/*/*.md"))
    words = re.compile(r"[A-Za-z']+")
    assert Counter(words.findall(text)) == Counter(words.findall(raw))


def test_speakers_stand_as_prompts_write_them() -> None:
    train, _ = texts.read_plays()
    assert train.count("\n\nROMEO:\n") > 100
    assert "\n\nHAMLET:\nTo be, or not to be: that is the question:\n" in train


def test_twelfth_night_is_held_out_whole() -> None:
    train, validation = texts.read_plays()
    assert validation.startswith("Twelfth Night\n\nACT I\n")
    assert "If music be the food of love, play on;" in validation
    assert "And we'll strive to please you every day." in validation
    assert "MALVOLIO" not in train
    assert "If music be the food of love" not in train
    assert 100_000 <= len(validation) <= 150_000


def test_the_plays_come_in_the_order_of_their_files() -> None:
    train, _ = texts.read_plays()
    assert train.startswith("A Midsummer Night's Dream\n")
    assert train.index("\nHamlet\n\nACT I") < train.index("\nKing Lear\n\nACT I") < train.index("\nMacbeth\n\nACT I")


def test_a_missing_package_is_an_error_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "PACKAGE", "no_such_package_of_plays")
    with pytest.raises(DataError, match="no_such_package_of_plays, which is missing; install it with: pip install"):
        texts.read_plays.__wrapped__()


def test_a_package_that_is_not_whole_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(package(), tmp_path / "torn_plays", ignore=shutil.ignore_patterns("twelfth-night.md", "*.py*"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(texts, "PACKAGE", "torn_plays")
    with pytest.raises(DataError, match=r"holds 37 plays where 38 are expected \(missing: Twelfth Night\)"):
        texts.read_plays.__wrapped__()
