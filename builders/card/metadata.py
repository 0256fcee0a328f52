"""Writes Croissant metadata (JSON-LD) of a release, and the YAML at the head of its dataset card.

Both follow from the manifest alone. Dataset search engines index Croissant files, and loaders such as mlcroissant read
records by them; paths are relative to the file, so they hold for the folder and for any copy of it. `load_dataset` and
the Hub read the YAML, which `verify` wants to the byte: another text would let releases of earlier versions fail.

Format: MLCommons, Croissant Format Specification 1.1, http://mlcommons.org/croissant/1.1, with the provenance of the
PROV ontology. What only a published release has (url, version, creator, day of publication) is left out before.

Tested by `tests/builders/card/test_metadata.py` and `tests/hf_scripts/test_card.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from builders.card.facts import COLLECTION_TYPE, label_sets, statements, terms_to_accept
from builders.card.words import ROLE_MEANINGS
from builders.release.duplicates import CONFIG, SPLIT
from builders.release.entries import ConfigEntry, FileEntry, Manifest
from builders.release.layout import INDEX_SUFFIX, LICENCES, SEALED_SUFFIX
from builders.release.manifest import SHARD_NUMBER
from builders.release.schema import COMMON, PLAN, ROLES, ColumnType, arrow_schema

CONFORMS_TO = ("http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0")

Json = dict[str, Any]

_TERMS = (
    "annotation arrayShape citeAs column containedIn equivalentProperty excludes extract field fileObject "
    "fileProperty fileSet format includes isArray isLiveDataset jsonPath key md5 parentField path readLines "
    "recordSet references regex repeated replace samplingRate sdVersion separator source subField transform "
    "unArchive value"
)

# The context of the specification 1.1, appendix 1, with the terms of 1.0 that mlcroissant (1.1.1) still asks for.
_CONTEXT: Json = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
} | {term: f"cr:{term}" for term in _TERMS.split()}

_DATA_TYPES: Mapping[ColumnType, str] = {
    "string": "sc:Text",
    "bool": "sc:Boolean",
    "int64": "sc:Integer",
    "float64": "sc:Float",
}

_PARQUET = "application/x-parquet"
"""As in the specification's examples; mlcroissant (1.1) reads no other as Parquet."""

_MEDIA_TYPES = {"parquet": _PARQUET, "csv": "text/csv", "png": "image/png", "md": "text/markdown"}


def croissant_text(manifest: Manifest) -> str:
    """Return the Croissant metadata of a manifest, as JSON with a line break at its end."""
    return json.dumps(_dataset(manifest), indent=1, ensure_ascii=False) + "\n"


def _dataset(manifest: Manifest) -> Json:
    benchmarks = [benchmark for _, benchmark in sorted(manifest.benchmarks.items())]
    titles = "; ".join(benchmark.title for benchmark in benchmarks)
    dataset: Json = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": list(CONFORMS_TO),
        "name": "unknown-detection",
        "description": f"Images for evaluating out-of-distribution (unknown) detection: {titles}.",
        "keywords": ["out-of-distribution detection", "unknown detection", "image classification", "benchmark"],
        "license": sorted({source.licence.url or source.licence.name for source in manifest.sources.values()}),
        "isBasedOn": [
            {"@type": "sc:Dataset", "name": source.title, "license": source.licence.name, "citation": source.citation}
            for _, source in sorted(manifest.sources.items())
        ],
        "prov:wasDerivedFrom": [
            {"@id": _source_id(key), "@type": "prov:Entity", "prov:label": f"{source.title}, {source.edition}"}
            for key, source in sorted(manifest.sources.items())
        ],
        "prov:wasGeneratedBy": [
            {"@type": "prov:Activity", "prov:label": f"Selection of {entry.title} {entry.version}, seed {entry.seed}"}
            for entry in benchmarks
        ],
    }
    if cited := [benchmark.citation for benchmark in benchmarks if benchmark.citation]:
        dataset["citeAs"] = "\n".join(dict.fromkeys(cited))
    if manifest.version is not None:
        dataset["version"] = manifest.version
    if manifest.published is not None:
        dataset["datePublished"] = manifest.published
    if manifest.repository is not None:
        dataset["url"] = f"{_HUB}/datasets/{manifest.repository}"
        owner = manifest.repository.partition("/")[0]
        dataset["creator"] = {"@type": "sc:Organization", "name": owner, "url": f"{_HUB}/{owner}"}
    dataset["rai:dataCollectionType"] = COLLECTION_TYPE
    for statement in statements(manifest):
        dataset[f"rai:{statement.name}"] = statement.texts[0] if len(statement.texts) == 1 else list(statement.texts)
    configs = card_configs(manifest)
    # The list of versions is no data, and changes with every version.
    files = [file for file in manifest.files() if file not in (manifest.changelog or ())]
    dataset["distribution"] = [*map(_file, files), *(_file_set(name, splits) for name, splits in configs.items())]
    codes = [(code, role, ROLE_MEANINGS[role]) for code, role in enumerate(ROLES)]
    label_names = [
        _enumeration(
            f"labels/{labels.configs[0]}",
            f"Classes of the column label in {', '.join(labels.configs)}.",
            ("label", "class_id", "name"),
            [(number, label, name) for number, (label, name) in enumerate(labels.names)],
        )
        for labels in label_sets(manifest)
    ]
    dataset["recordSet"] = [
        _enumeration("roles", "Codes of the column role.", ("code", "name", "meaning"), codes),
        _splits(manifest),
        *label_names,
        # A config's rows with images or, if it has none here, those of its index.
        *(_records(name, config, name in configs) for name, config in sorted(manifest.configs.items())),
    ]
    return dataset


def _source_id(key: str) -> str:
    return f"urn:dataset:{key}"


def _records(name: str, config: ConfigEntry, image: bool) -> Json:
    """Return a config's rows as a record set: its fields, its sources, and how images were made that they lack."""
    splits = [split for _, split in sorted(config.splits.items())]
    provenance: Json = {
        "prov:wasDerivedFrom": [{"@id": _source_id(key)} for key in sorted({k for s in splits for k in s.sources})]
    }
    if made := dict.fromkeys(split.made for split in splits if split.made):
        provenance["prov:wasGeneratedBy"] = [{"@type": "prov:Activity", "prov:label": text} for text in made]
    fields = _fields(name, config, image)
    return _named("cr:RecordSet", name, description=config.description, field=fields, **provenance)


def _splits(manifest: Manifest) -> Json:
    """Return the names of splits with what each is for; those that evaluate detectors are test splits."""
    roles: dict[str, set[str]] = {}
    for key, split in manifest.by_key().items():
        roles.setdefault(key.partition("/")[2], set()).update(split.roles)
    rows = []
    for name, its in sorted(roles.items()):
        # Images of the role external are for tuning detectors, and for training in splits of that name.
        tunes = "validation" in name or its == {"external"}
        rows.append((name, "cr:TrainingSplit" if name == "train" else f"cr:{'Validation' if tunes else 'Test'}Split"))
    ids = ["splits/name", "splits/url"]
    return _named(
        "cr:RecordSet",
        "splits",
        description="Names of the splits, and what each is for.",
        dataType="cr:Split",
        key={"@id": ids[0]},
        # mlcroissant (1.1.1) does not read cr:Split alone, with which the specification's example does.
        field=[
            _named("cr:Field", ids[0], dataType="sc:Text"),
            _named("cr:Field", ids[1], dataType=["sc:URL", "cr:Split"]),
        ],
        data=[dict(zip(ids, row, strict=True)) for row in rows],
    )


def _named(kind: str, name: str, **values: object) -> Json:
    return {"@type": kind, "@id": name, "name": name, **values}


def _file(file: FileEntry) -> Json:
    return _named(
        "cr:FileObject",
        file.path,
        contentUrl=file.path,
        contentSize=f"{file.size} B",
        encodingFormat=_MEDIA_TYPES.get(file.path.rpartition(".")[2], "application/octet-stream"),
        sha256=file.sha256,
    )


def _file_set(name: str, splits: CardSplits) -> Json:
    paths = [_data_path(files) for files, _ in splits.values()]
    text = f"The files of the config {name}."
    return _named("cr:FileSet", f"files/{name}", description=text, encodingFormat=_PARQUET, includes=paths)


def _enumeration(name: str, description: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Json:
    """Return a record set whose rows stand in the file; the first column holds integers and is its key."""
    ids = [f"{name}/{column}" for column in columns]
    return _named(
        "cr:RecordSet",
        name,
        description=description,
        dataType="sc:Enumeration",
        key={"@id": ids[0]},
        field=[
            _named("cr:Field", field, dataType="sc:Text" if number else "sc:Integer")
            for number, field in enumerate(ids)
        ],
        data=[dict(zip(ids, row, strict=True)) for row in rows],
    )


def _fields(name: str, config: ConfigEntry, image: bool) -> list[Json]:
    own = {column.name: column for column in config.columns}
    folder, files = ("data", f"files/{name}") if image else ("index", f"files/{name}{INDEX_SUFFIX}")

    def field(column: str, description: str, kind: str, extract: str, refers: str = "", **transform: Json) -> Json:
        source = {"fileSet": {"@id": files}, "extract": {extract: column if extract == "column" else "fullpath"}}
        entry = _named(
            "cr:Field", f"{name}/{column}", description=description, dataType=kind, source=source | transform
        )
        return entry | ({"references": {"field": {"@id": refers}}} if refers else {})

    # It matches its own result, too: mlcroissant (1.1.1) applies it again where it joins the splits that it refers to.
    pattern = rf"(?:(?:.*/)?{folder}/{name}/)?([a-z0-9_]+?)(?:-\d{{5}}-of-\d{{5}})?(?:\.parquet)?$"
    text = "The row's split, from the name of its file."
    fields = [field("split", text, "sc:Text", "fileProperty", "splits/name", transform={"regex": pattern})]
    for column in arrow_schema(config.label_names, config.columns, image=image).names:
        meaning = COMMON[column].meaning if column in COMMON else own[column].description
        if column == "image":
            fields.append(field(column, meaning, "sc:ImageObject", "column", transform={"jsonPath": "bytes"}))
        else:
            kind = own[column].type if column in own else PLAN.get(column, "string")
            fields.append(field(column, meaning, _DATA_TYPES[kind], "column"))
    return fields


# The Hub's categories (hub-docs, datasetcard.md); the larger ones are beyond any release of ours.
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LARGEST = "1M<n<10M"

_HUB = "https://huggingface.co"


def front_matter_text(manifest: Manifest) -> str:
    """Return the beginning of the card: the YAML between two lines of ---, without anchors."""
    import yaml

    return f"---\n{yaml.safe_dump(front_matter(manifest), sort_keys=False, allow_unicode=True)}---\n"


def front_matter(manifest: Manifest) -> dict[str, Any]:
    """Return the card's YAML: licence and tags, and every config with the files, sizes and rows of its splits.

    Words are those of the Hub (hub-docs, datasetcard.md, datasets-gated.md). What access requests show and ask for
    takes effect in a gated repository only.

    It has no features: if the card has none, `datasets` and the Hub's viewer read them from the Parquet schema
    (datasets 5.2, `packaged_modules/parquet`; dataset-viewer, `fill_builder_info`). In the card they would repeat the
    class names for every config, and the Hub refuses large cards. Row counts stay because `load_dataset` checks them.
    """
    all_rows = sum(split.rows for _, _, split in manifest.splits())
    configs, info = [], []
    for name, splits in card_configs(manifest).items():
        paths = [{"split": split, "path": _data_path(files)} for split, (files, _) in splits.items()]
        configs.append({"config_name": name, "data_files": paths})
        counts = [
            {"name": split, "num_bytes": sum(file.size for file in files), "num_examples": rows}
            for split, (files, rows) in splits.items()
        ]
        total = sum(file.size for files, _ in splits.values() for file in files)
        info.append({"config_name": name, "splits": counts, "download_size": total, "dataset_size": total})
    return {
        "pretty_name": "Unknown detection",
        "license": "other",
        "license_name": "several",
        "license_link": LICENCES,
        "language": ["en"],  # of class names, columns and the card
        "annotations_creators": ["found"],
        # As cards of image datasets name a source that need not be on the Hub (food101, cifar100).
        "source_datasets": [f"extended|other-{key.replace('_', '-')}" for key in sorted(manifest.sources)],
        "task_categories": ["image-classification"],
        "task_ids": ["multi-class-image-classification"],
        "tags": ["out-of-distribution-detection", "unknown-detection", "benchmark"],
        "size_categories": [next((name for limit, name in _SIZES if all_rows < limit), _LARGEST)],
        **_access_request(manifest),
        "configs": configs,
        "dataset_info": info,
    }


def _access_request(manifest: Manifest) -> dict[str, Any]:
    """Return what somebody who asks for access reads and fills in: the terms of the sources whose images need it."""
    sources = terms_to_accept(manifest)
    if not sources:
        return {}
    terms = [
        f"**{source.title}**: {source.licence.name}"
        + (f" ({source.licence.url})" if source.licence.url else "")
        + (f". {source.licence.statement}" if source.licence.statement else ".")
        for source in sources
    ]
    return {
        "extra_gated_heading": "Accept the terms of the sources",
        "extra_gated_prompt": "Images of this dataset keep the terms of their owners:\n\n" + "\n\n".join(terms),
        "extra_gated_fields": {
            "Name": "text",
            "Affiliation": "text",
            "Intended use": "text",
            **{f"I have read the terms of {source.title} and keep to them": "checkbox" for source in sources},
        },
    }


CardSplits = dict[str, tuple[Sequence[FileEntry], int]]
"""Splits of a config as the card describes them: their files, and their numbers of rows."""


def card_configs(manifest: Manifest) -> dict[str, CardSplits]:
    """Return the configs of the card in its order: images, indexes, sealed residuals, the duplicates.

    A config without shards (`--index-only`) has only its index in the card: one pattern that matches no file breaks
    every config of a repository.
    """
    images, indexes, sealed = (dict[str, CardSplits]() for _ in range(3))
    for name, config in sorted(manifest.configs.items()):
        for split, entry in sorted(config.splits.items()):
            for listed, key, files in (
                (images, name, entry.data),
                (indexes, f"{name}{INDEX_SUFFIX}", (entry.index,)),
                (sealed, f"{name}{SEALED_SUFFIX}", entry.sealed),
            ):
                if files:
                    listed.setdefault(key, {})[split] = files, entry.rows
    table = manifest.duplicates
    pairs: dict[str, CardSplits] = {} if table is None else {CONFIG: {SPLIT: ((table,), table.rows)}}
    return {**images, **indexes, **sealed, **pairs}


def _data_path(files: Sequence[FileEntry]) -> str:
    """Return the YAML `path` of a split's files: a file, or a pattern for several shards.

    A pattern contains the number of shards (`train-*-of-00170.parquet`), so that it does not match the shards of an
    earlier build.
    """
    return files[0].path if len(files) == 1 else SHARD_NUMBER.sub("-*-of-", files[0].path)
