from tests.fixtures.threads import one_thread

__all__ = ["one_thread"]
