# A hook of PBS (OpenPBS, PBS Professional), run as root by PBS's own Python on each node:
#
#     qmgr -c "create hook tenken event='execjob_begin,exechost_periodic',alarm=50,freq=300"
#     qmgr -c "import hook tenken application/x-python default /opt/tenken/hooks/pbs_hook.py"
#
# The alarm (30 s by default) must be above the 40 s after which node-check ends itself; beyond it PBS rejects the job.
# It imports no module of Tenken and runs on any Python 3. PBS treats an exception as a rejection, so any failure here
# lets the job start.
import contextlib
import subprocess

import pbs

CHECK = "/opt/tenken/hooks/node-check"


def bad(options):
    """The line of a bad node; None for a good one and for one whose state is unknown."""
    process = subprocess.Popen([CHECK, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said = process.communicate()[0].decode("utf-8", "replace").strip()
    if process.returncode == 2:
        with contextlib.suppress(Exception):  # OpenPBS 23.06 built with Python 3.10 or later cannot log
            pbs.logmsg(pbs.EVENT_DEBUG, said or "tenken: not known")
    return said if process.returncode == 1 and said.startswith("tenken: ") else None


event = pbs.event()
try:
    name = pbs.get_local_nodename()
    options = ["--node", name, "--seconds", "10", "--drain"]  # without `drain` in node.json the node stays in service
    if event.type == pbs.EXECHOST_PERIODIC:
        line = bad([*options, "--no-measure"])
    else:
        line = bad([*options, "--job", event.job.id])
    if line:
        node = event.vnode_list[name]
        node.state = pbs.ND_OFFLINE
        node.comment = line
except Exception:
    line = None
if line and event.type != pbs.EXECHOST_PERIODIC:
    # requeues the job; after event.job.rerun() OpenPBS would run it again each time that it ended
    event.reject(line)
event.accept()
