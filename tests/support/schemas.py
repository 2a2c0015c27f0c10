"""Whether everything that one JSON schema accepts is accepted by another, for the keywords that the result schema
uses."""

from __future__ import annotations

from typing import Any

#: Keywords that do not affect what is allowed.
_ABOUT = {"$schema", "$id", "title", "description", "default", "$defs", "examples", "$comment"}
#: Bounds, and whether a larger one allows less.
_BOUNDS = {
    "minimum": 1, "minLength": 1, "minItems": 1, "minProperties": 1, "exclusiveMinimum": 1,
    "maximum": -1, "maxLength": -1, "maxItems": -1, "maxProperties": -1, "exclusiveMaximum": -1,
}  # fmt: skip
_READ = {"required", "properties", "items", "additionalProperties", "propertyNames", "type", "enum", "const"}


def narrowed(old: Any, new: Any, old_root: Any = None, new_root: Any = None, at: str = "document") -> list[str]:
    """Where `new` refuses what `old` allows, one line each."""
    old_root, new_root = old if old_root is None else old_root, new if new_root is None else new_root
    old, new = _resolved(old, old_root), _resolved(new, new_root)
    if new == old or new is True:
        return []
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [f"{at}: {old!r} became {new!r}"]
    found = []
    for key in sorted(new.get("required", [])):
        if key not in old.get("required", []):
            found.append(f"{at}: {key!r} is required, and was optional or unknown")
    mine, theirs = old.get("properties", {}), new.get("properties", {})
    for key, value in mine.items():
        if key in theirs:
            found += narrowed(value, theirs[key], old_root, new_root, f"{at}.{key}")
        elif new.get("additionalProperties", True) is False:
            found.append(f"{at}: {key!r} was allowed, and is refused")
    for keyword in ("items", "additionalProperties", "propertyNames"):
        closed = keyword == "additionalProperties" and new.get(keyword) is False
        if keyword in new and new[keyword] is not True and not closed:
            found += narrowed(old.get(keyword, True), new[keyword], old_root, new_root, f"{at}[{keyword}]")
    if new.get("additionalProperties", True) is False and old.get("additionalProperties", True) is not False:
        found.append(f"{at}: further keys were allowed, and are refused")
    whole = {"integer"} if "number" in _types(new) else set()
    if "type" in new and not {"enum", "const"} & set(old) and not (_types(old) and _types(old) <= _types(new) | whole):
        found.append(f"{at}: type {sorted(_types(old))} became {sorted(_types(new))}")
    before, now = _values(old), _values(new)
    if now is not None and (before is None or not all(value in now for value in before)):
        found.append(f"{at}: values {before} became {now}")
    for keyword, narrower in _BOUNDS.items():
        if keyword in new and (keyword not in old or (new[keyword] - old[keyword]) * narrower > 0):
            found.append(f"{at}: {keyword} {old.get(keyword)} became {new[keyword]}")
    for keyword in sorted(set(new) - _READ - set(_BOUNDS) - _ABOUT):
        if old.get(keyword) != new[keyword]:
            found.append(f"{at}: {keyword} {old.get(keyword)} became {new[keyword]}")
    return found


def _values(schema: dict[str, Any]) -> list[Any] | None:
    return schema.get("enum", [schema["const"]] if "const" in schema else None)


def _types(schema: dict[str, Any]) -> set[str]:
    said = schema.get("type")
    return {said} if isinstance(said, str) else set(said or ())


def _resolved(schema: Any, root: Any) -> Any:
    while isinstance(schema, dict) and "$ref" in schema:
        found = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = {**found, **{k: v for k, v in schema.items() if k != "$ref"}}
    return schema
