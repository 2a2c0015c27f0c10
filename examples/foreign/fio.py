"""fio: read bandwidth of a file on the node's disk. Debian: apt-get install fio."""

import reframe as rfm

from tenken.reframe.foreign import Figure, ForeignCheck


@rfm.simple_test
class FioRead(ForeignCheck):
    """Sequential reading that bypasses the page cache, one second per run."""

    descr = "fio: sequential reading of a file"
    program = "fio_read"
    command = "fio --name=read --rw=read --bs=1M --size=64M --runtime=1 --time_based --filename=fio.data --unlink=1"
    repetitions = 3
    figures = {
        "bandwidth": Figure(
            "bandwidth of reading", "MB/s", "higher", r"READ: bw=\S+ \((?P<value>[\d.]+)(?P<unit>\w?B/s)\)"
        ),
        "latency": Figure(
            "mean completion time", "us", "lower", r"^ +clat \((?P<unit>[num]?s)ec\).* avg= *(?P<value>[\d.]+)"
        ),
    }
    required_lines = [r"err= 0"]
    version_command = "fio --version"
    tags = {"io", "quick", "acceptance", "nightly"}
