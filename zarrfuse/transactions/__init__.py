"""Stores chunks and documents atomically: each is wholly the old or wholly the new one.

A writer fills a `working_copy`, whose bytes are in a `spool` file; `commits` stores it. A chunk in several
parts is written as `temporary_parts` into the `workspace`, recorded in a `journal`, and moved to its keys
(`multi_key_commit`, `apply_journal`), or back (`rollback`); what has one key needs no journal
(`one_key_commit`). `recovery` finishes the journals of processes that died; until then `recovered_view`
shows the store as if they were finished. `locks` serialises commits of one chunk (`ofd` has the system
call), `snapshot` reads a chunk without a lock. Used by views and `mounts`. It must not know chunks or
parts: views decide which bytes go under which key.
"""
