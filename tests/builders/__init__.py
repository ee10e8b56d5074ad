"""What tests are made of: datasets, stores, views opened in process, mounts and their processes.

Imported as `from builders.documents import array`. A builder that only the tests of one folder need
lies in that folder.
"""
