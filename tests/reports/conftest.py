from tests.reports import stubs

stubs.install()
