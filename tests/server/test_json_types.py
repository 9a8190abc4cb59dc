"""Fields of requests: what is accepted as a time, and what is not."""

from typing import Annotated

import pytest
from pydantic import TypeAdapter, ValidationError

from offdiag.server.json_types import IsoMoment, Unconverted, whole_number

MOMENT = TypeAdapter(Annotated[float | str, IsoMoment()])


@pytest.mark.parametrize("text", ["5", "-2.5", "1e300", '"2026-01-05"', '"2026-01-05T10:00:00Z"', '"2026-01-05 10:00"'])
def test_numbers_and_iso_dates_are_times(text):
    assert str(MOMENT.validate_json(text)) == str(TypeAdapter(float | str).validate_json(text))


@pytest.mark.parametrize(
    "text", ["true", "null", "[]", "NaN", "Infinity", "1e999", '""', '"5"', '"soon"', f'"{"2026-01-05":>41}"']
)
def test_anything_else_gets_the_same_line(text):
    with pytest.raises(ValidationError, match="a time is a number or an ISO date") as error:
        MOMENT.validate_json(text)
    assert error.value.error_count() == 1


def test_the_schema_says_so():
    assert MOMENT.json_schema()["anyOf"][1] == {"type": "string", "format": "date-time", "maxLength": 40}


@pytest.mark.parametrize(("text", "good"), [("3", True), ("3.0", True), ('"3"', False), ("true", False), ("0", False)])
def test_whole_numbers_are_not_converted_from_text(text, good):
    field = TypeAdapter(Annotated[int, whole_number(1)])
    if good:
        assert field.validate_json(text) == 3
    else:
        with pytest.raises(ValidationError, match="expected a whole number of at least 1"):
            field.validate_json(text)
    assert TypeAdapter(Annotated[int | str, Unconverted("an id")]).validate_json('"3"') == "3"
