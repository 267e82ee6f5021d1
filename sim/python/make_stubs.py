#!/usr/bin/env python3
"""make_stubs.py SCHEMA STUB: scenario.pyi, which tells editors the fields of a Scenario, from the schema of scenarios."""

import json
import keyword
import re
import sys

HEAD = '''"""Written by make_stubs.py from `rehearse schema scenario`."""

import os
from typing import Any, Dict, Iterator, List, Literal, Mapping, Optional, Tuple, Union, overload

class Fields:
    def __init__(self, fields: dict) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __getitem__(self, name: str) -> Any: ...
    def __setitem__(self, name: str, value: Any) -> None: ...
    def __contains__(self, name: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def to_dict(self) -> dict: ...
'''

TAIL = '''    @classmethod
    def load(cls, file: Union[str, os.PathLike[str]]) -> "Scenario": ...
    def save(self, file: Union[str, os.PathLike[str]]) -> None: ...

Given = Union[str, os.PathLike[str], Mapping[str, Any], Scenario]

def text_and_file(scenario: Given) -> Tuple[str, str]: ...
def as_file(scenario: Given) -> Any: ...
'''

SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class Stubs:
    def __init__(self, schema):
        self.definitions = schema.get("$defs", {})
        self.names = {}  # by the schema's id; a class has its name before its text, as schemas refer to themselves
        self.classes = {}  # texts by name

    def type_of(self, schema, name):
        """The type of what `schema` allows, of a field that would be a class `name`."""
        if "$ref" in schema:
            target = schema["$ref"].rsplit("/", 1)[-1]
            return self.type_of(self.definitions[target], target)
        if "const" in schema or "enum" in schema:
            values = schema.get("enum", [schema.get("const")])
            return f"Literal[{', '.join(repr(value) for value in values)}]"
        for several in ("anyOf", "oneOf"):
            if several in schema and all("required" not in part or "properties" in part for part in schema[several]):
                return self.union(schema[several], name)
        kind = schema.get("type")
        if isinstance(kind, list):
            return self.union([{**schema, "type": one} for one in kind], name)
        if kind == "array":
            return f"List[{self.type_of(schema.get('items', {}), name.rstrip('s'))}]"
        if "properties" in schema:
            return self.class_of(schema, name)
        if kind == "object":
            more = schema.get("additionalProperties")
            return f"Dict[str, {self.type_of(more, name) if isinstance(more, dict) else 'Any'}]"
        return SIMPLE.get(kind, "Any")

    def union(self, parts, name):
        types = list(dict.fromkeys(self.type_of(part, name) for part in parts))
        return types[0] if len(types) == 1 else f"Union[{', '.join(types)}]"

    def class_of(self, schema, name):
        if id(schema) not in self.names:
            title = plain = "".join(part.capitalize() for part in re.split(r"[^A-Za-z0-9]+", name) if part)
            while title in self.classes or title == "Scenario":  # another object of the same name
                title = f"{plain}{1 + int(title[len(plain):] or 1)}"
            self.names[id(schema)] = title
            self.classes[title] = ""
            self.classes[title] = self.class_text(title, "Fields", schema, with_init=False)
        return f'"{self.names[id(schema)]}"'

    def class_text(self, title, base, schema, with_init):
        lines = [f"class {title}({base}):"]
        required = schema.get("required", [])
        arguments = []
        for name, field in schema["properties"].items():
            if not name.isidentifier() or keyword.iskeyword(name):
                continue
            kind = self.type_of(field, name)
            lines.append(f"    {name}: {kind}")
            if field.get("description"):
                lines.append(f'    """{field["description"]}"""'.replace("\\", "\\\\"))
            given = f"Union[{kind}, Mapping[str, Any]]" if '"' in kind else kind
            arguments.append(f"{name}: {given} = ...,  # {'required' if name in required else 'optional'}")
        if with_init:
            lines.append("    def __init__(")
            lines.append("        self,")
            lines.append("        scenario: Optional[Mapping[str, Any]] = ...,")
            lines.append("        *,")
            lines += [f"        {argument}" for argument in arguments]
            lines.append("    ) -> None: ...")
        return "\n".join(lines) + "\n"


def main():
    schema_file, stub_file = sys.argv[1:]
    with open(schema_file, encoding="utf-8") as text:
        schema = json.load(text)
    stubs = Stubs(schema)
    scenario = stubs.class_text("Scenario", "Fields", schema, with_init=True)
    parts = [HEAD, *stubs.classes.values(), scenario + TAIL]
    with open(stub_file, "w", encoding="utf-8") as out:
        out.write("\n".join(parts))


if __name__ == "__main__":
    main()
