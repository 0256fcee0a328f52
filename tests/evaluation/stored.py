"""Features as `extract` leaves them, of rows that a test makes up."""

import pyarrow as pa

COMPUTED = {"device": "cpu", "batch_size": 4}


def ids_of(texts):
    """Ids as a table of a release has them."""
    return pa.chunked_array([pa.array(list(map(str, texts)), pa.string())])


def ask(store, key, ids, labels):
    """Say that rows of a split, a pair of its names, are to be extracted."""
    store.ask({key: pa.table({"id": ids_of(ids), "label": pa.array(labels, pa.int64())})})


def put(store, key, ids, labels, columns, environment=COMPUTED):
    """Store columns of rows of a split."""
    ask(store, key, ids, labels)
    store.table.write("/".join(key), 0, ids_of(ids), columns, environment)
