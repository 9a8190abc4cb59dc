"""Types of JSON fields that pydantic lacks: values without conversion, whole numbers, moments."""

from __future__ import annotations

from typing import Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from offdiag.data.moments import moment_of


def _whole(number: float) -> int:
    """In JSON, 3.0 is a whole number; from 2^53 on it may have been rounded."""
    if not number.is_integer() or abs(number) >= 2**53:
        raise ValueError("no whole number")
    return int(number)


class Unconverted:
    """Numbers and text without conversion: "3" and true are not numbers, 3 is not text. One error message for all."""

    def __init__(self, complaint: str, **bounds: Any) -> None:
        self.complaint, self.bounds = complaint, bounds

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        whole = core_schema.int_schema(strict=True, **self.bounds)
        point = core_schema.no_info_after_validator_function(_whole, core_schema.float_schema(strict=True))
        rounded = core_schema.chain_schema([point, whole])
        other = [] if source is int else [core_schema.str_schema(strict=True)]
        union = core_schema.union_schema([whole, *other, rounded], mode="left_to_right")
        return core_schema.custom_error_schema(union, "form", custom_error_message=self.complaint)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        choices = schema["schema"]["choices"][:-1]
        return handler(choices[0] if len(choices) == 1 else core_schema.union_schema(choices))


class IsoMoment:
    """A finite number, or text that is an ISO date."""

    LONGEST = 40  # characters of a date

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        number = core_schema.float_schema(strict=True, allow_inf_nan=False)
        text = core_schema.str_schema(strict=True, max_length=self.LONGEST)
        date = core_schema.no_info_after_validator_function(_iso_date, text)
        union = core_schema.union_schema([number, date], mode="left_to_right")
        complaint = "a time is a number or an ISO date such as 2024-05-31 or 2024-05-31T12:00:00Z"
        return core_schema.custom_error_schema(union, "form", custom_error_message=complaint)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "number"}, {"type": "string", "format": "date-time", "maxLength": self.LONGEST}]}


def _iso_date(text: str) -> str:
    moment_of(text)
    return text


def about(text: str, **rules: Any) -> Any:
    """The description of a field, and further rules of pydantic."""
    return Field(description=text, **rules)


def whole_number(least: int, most: int | None = None) -> Unconverted:
    bounds = {"ge": least} | ({} if most is None else {"le": most})
    text = f"of at least {least}" if most is None else f"from {least} to {most}"
    return Unconverted(f"expected a whole number {text}", **bounds)
