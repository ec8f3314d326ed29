"""Journals that belong together: the bandits of a service are spread over them by their names."""

from collections.abc import Sequence
from hashlib import blake2b

from syndicated.errors import InputError
from syndicated.store._base import Store


def place_of(name: str, count: int) -> int:
    """Which of so many journals, in the order of their ids, has the bandit of this name.

    >>> from syndicated.store import place_of
    >>> [place_of(name, 3) for name in ("news", "shop", "search")]
    [1, 0, 1]
    """
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") % count


def form_group(stores: Sequence[Store]) -> list[Store]:
    """Journals in the order of their ids, which must be a group: all of it and no others; new ones become one.

    Every journal keeps the ids of all, so that a bandit is never looked for in another one than it is in. A journal
    that was used alone stays alone.
    """
    check_group(stores)
    ordered = sorted(stores, key=lambda store: store.id)
    ids = [store.id for store in ordered]
    for store in ordered if len(ids) > 1 else ():
        if not _group_of(store):
            with store.batch() as last:
                if not last:  # nobody has used it alone meanwhile
                    store.join(ids)
    check_group(stores)  # another process may have been first, with others
    return ordered


def check_group(stores: Sequence[Store]) -> None:
    """Refuse journals that are not all of a group, and no others. New ones may be of any."""
    ids = {store.id for store in stores}
    if len(ids) < len(stores):
        raise InputError("--store must name different journals; got one of them, or a copy of it, twice")
    for number, store in enumerate(stores, 1):
        group = set(_group_of(store))
        if group and group != ids:
            raise InputError(
                "--store must name all journals that bandits were spread over at the first start, and no others: "
                f"number {number} is one of {len(group)}, of which {len(group - ids)} are missing; "
                f"{len(ids - group)} others were given"
            )


def _group_of(store: Store) -> list[str]:
    """The ids of a journal's group; a journal that was used alone is one by itself, and a new one has none."""
    return store.group or ([store.id] if store.last() else [])
