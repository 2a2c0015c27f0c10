"""Power supplies, fans and coolant by Redfish, from a stand-in: the readings, their cost, and who receives
passwords."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from tenken.campaign import file, findings, journal, redfish
from tenken.campaign.file import Campaign, CampaignError
from tenken.report import campaign as pages
from tests.support import campaign as command

LOGIN = ("reader", "s3cret: with colon")
ROOT = "/redfish/v1"


def member(path, **more):
    return {"@odata.id": f"{ROOT}{path}", **more}


def ok(**more):
    return {**more, "Status": {"State": "Enabled", "Health": "OK"}}


def newer(supplies=2, fan_health="OK", leak="OK"):
    """Resources of a BMC in the layout since 2020, with the fans on two pages."""
    chassis = "/Chassis/1"
    found = {
        "/Chassis": {"Members": [member(chassis)]},
        chassis: member(
            chassis, PowerSubsystem=member(f"{chassis}/PowerSubsystem"),
            ThermalSubsystem=member(f"{chassis}/ThermalSubsystem"), Power=member(f"{chassis}/Power"),
        ),
        f"{chassis}/PowerSubsystem": member(
            f"{chassis}/PowerSubsystem", PowerSupplies=member(f"{chassis}/PowerSubsystem/PowerSupplies")
        ),
        f"{chassis}/ThermalSubsystem": member(
            f"{chassis}/ThermalSubsystem", Fans=member(f"{chassis}/Fans"),
            CoolantConnectors=member(f"{chassis}/Coolant"), LeakDetection=member(f"{chassis}/LeakDetection"),
        ),
        f"{chassis}/LeakDetection": member(f"{chassis}/LeakDetection", LeakDetectors=member(f"{chassis}/Leaks")),
        f"{chassis}/PowerSubsystem/PowerSupplies": {"Members": [member(f"/psu{i}") for i in range(2)]},
        f"{chassis}/Fans": {
            "Members": [member("/fan0")], "Members@odata.nextLink": f"{ROOT}{chassis}/Fans?page=2",
        },
        f"{chassis}/Fans?page=2": {"Members": [member("/fan1")]},
        f"{chassis}/Coolant": {"Members": [member("/coolant", **ok(Name="In", CoolantConnectorType="Supply"))]},
        f"{chassis}/Leaks": {"Members": [member("/leak", **ok(Name="Tray", DetectorState=leak))]},
        # the older resource reports the same and does not count a second time
        f"{chassis}/Power": {"PowerSupplies": [ok(Name="PSU 0"), ok(Name="PSU 1")]},
    }  # fmt: skip
    for i in range(2):
        there = i < supplies
        found[f"/psu{i}"] = {
            "Name": f"PSU {i}", "Model": "P3000", "FirmwareVersion": "1.2", "PowerCapacityWatts": 3000,
            "SerialNumber": f"S{i}", "Status": {"State": "Enabled", "Health": "OK"} if there else {"State": "Absent"},
        }  # fmt: skip
        found[f"/fan{i}"] = {
            "Name": f"Fan {i}", "SpeedPercent": {"Reading": 40 + i},
            "Status": {"State": "Enabled", "Health": fan_health if i else "OK"},
        }  # fmt: skip
    return found


def older():
    return {
        "/Chassis": {"Members": [member("/Chassis/A")]},
        "/Chassis/A": {"Power": member("/P"), "Thermal": member("/T")},
        "/P": {"PowerSupplies": [ok(Name="1", Model="P3000", FirmwareVersion="1.2", PowerCapacityWatts=3000)] * 2},
        "/T": {"Fans": [ok(FanName="A", Reading=19000), {"FanName": "B", "Status": {"Health": "Critical"}}]},
    }


class Server:
    """BMCs on loopback, one for each first part of a path."""

    def __init__(self):
        self.of, self.seen, self.special = {}, [], {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.seen.append((self.command, self.path, self.headers.get("Authorization")))
                token = base64.b64encode(":".join(LOGIN).encode()).decode()
                if self.path in outer.special:
                    return outer.special[self.path](self)
                if self.headers.get("Authorization") != f"Basic {token}":
                    return self.answer(401, {})
                found = outer.of.get(self.path.removeprefix(ROOT))
                return self.answer(404 if found is None else 200, found or {})

            do_POST = do_PATCH = do_DELETE = do_GET

            def answer(self, code, document, **headers):
                body = json.dumps(document).encode()
                self.send_response(code)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def read(self, seconds=30.0, login=LOGIN):
        return redfish.read(redfish.Bmc(self.address, login, seconds=seconds))


@pytest.fixture
def server():
    one = Server()
    yield one
    one.http.shutdown()
    one.http.server_close()


def test_power_supplies_fans_and_coolant_are_read_and_what_names_a_part_is_not(server):
    server.of = newer()
    found = server.read()
    assert found == redfish.Hardware({
        "power supplies": "2 x P3000 1.2 3000 W", "fans": "2 x present", "coolant connectors": "Supply",
        "leak detectors": "present",
    }, readings={"leaks": 0.0})  # fmt: skip
    assert {method for method, _, _ in server.seen} == {"GET"} and len(server.seen) < 20


def test_a_bmc_of_the_older_kind_says_the_same(server):
    server.of = older()
    critical = {"Status": {"Health": "Critical"}, "Model": "M"}
    server.of["/T"]["Fans"] += [{"MemberId": "3", "Id": "D"}, {"Id": "4"} | critical, critical]
    found = server.read()
    assert found.items == {"power supplies": "2 x P3000 1.2 3000 W", "fans": "2 x M, 3 x present"}
    assert found.faults == [f"fan {name}: health Critical" for name in ("4", "B", "without name")]


def test_a_missing_supply_differs_and_parts_at_fault_are_named(server):
    server.of = newer(supplies=1, fan_health="Warning", leak="Critical")
    found = server.read()
    assert found.items["power supplies"] == "P3000 1.2 3000 W"
    assert found.faults == ["fan Fan 1: health Warning", "leak detector Tray: detector state Critical"]


def test_a_wrong_password_and_no_redfish_are_told_and_neither_shows_the_password(server):
    server.of = newer()
    found = server.read(login=("reader", "another"))
    assert "user or password is not accepted" in found.error and "another" not in found.error
    server.of = {}
    assert "not a Redfish service" in server.read().error


def test_the_password_goes_to_no_other_host(server):
    other = Server()
    try:
        server.of = newer()
        server.special[f"{ROOT}/Chassis"] = lambda h: h.answer(302, {}, Location=f"{other.address}{ROOT}/Chassis")
        assert "HTTP 302" in server.read().error
        here = (f"{ROOT}/../../x", f"{ROOT}/x y", f"{ROOT}/x\r\nHost: y", "@evil/redfish/v1")
        for link in (f"{other.address}{ROOT}/x", f"//{other.address[7:]}{ROOT}", *here):
            server.special[f"{ROOT}/Chassis"] = lambda h, link=link: h.answer(200, {"Members": [{"@odata.id": link}]})
            assert "does not lead below" in server.read().error
        assert other.seen == []
    finally:
        other.http.shutdown()
        other.http.server_close()


def test_a_bmc_that_does_not_end_is_given_up(server):
    forever = {"Members": [], "Members@odata.nextLink": f"{ROOT}/Chassis"}
    server.special[f"{ROOT}/Chassis"] = lambda h: h.answer(200, forever)
    assert "form a loop" in server.read().error and len(server.seen) <= 100
    server.special[f"{ROOT}/Chassis"] = lambda h: time.sleep(1.5)
    assert server.read(seconds=0.3).error
    server.special[f"{ROOT}/Chassis"] = lambda h: h.answer(200, {"x": "y" * (5 << 20)})
    assert "bytes" in server.read().error
    server.special[f"{ROOT}/Chassis"] = lambda h: h.answer(200, [])
    assert "not a JSON object" in server.read().error


@pytest.mark.parametrize(("left", "waits"), [(100.0, 10.0), (3.0, 3.0)])
def test_one_answer_is_waited_for_ten_seconds_or_what_is_left(left, waits):
    def refuse(_, timeout):
        assert timeout == pytest.approx(waits, abs=1)
        raise OSError("refused")

    bmc = redfish.Bmc("http://127.0.0.1:1", LOGIN, seconds=left)
    bmc.opener = SimpleNamespace(open=refuse)
    with pytest.raises(redfish.BmcError, match="no answer: refused"):
        bmc.get(ROOT)


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("https://{node}-bmc", None), ("https://{node}.bmc.site:8443/", None), ("http://127.0.0.1:8000", None),
        ("http://{node}-bmc", "unencrypted"), ("https://me:pw@{node}", "contains a user"), ("{node}-bmc", "a URL"),
        ("https://me@{node}", "contains a user"), ("https://:pw@{node}", "contains a user"),
        ("https://{node}/redfish/v1", "more than a host"), ("ftp://{node}", "unencrypted"), ("https://x:y", "a URL"),
    ],
)  # fmt: skip
def test_addresses(address, fault):
    found = redfish.fault_of_address(address)
    assert found is None if fault is None else fault in found


def test_credentials_come_from_the_environment_or_a_file_that_others_cannot_read(tmp_path):
    assert redfish.credentials({redfish.USER: "a", redfish.PASSWORD: "b"}) == ("a", "b")
    path = tmp_path / "login"
    path.write_text("a\nb c\n")
    path.chmod(0o600)
    assert redfish.credentials({redfish.CREDENTIALS: str(path)}) == ("a", "b c")
    path.chmod(0o640)
    with pytest.raises(redfish.RedfishError, match="readable by other users"):
        redfish.credentials({redfish.CREDENTIALS: str(path)})
    path.chmod(0o600)
    path.write_text("a\n")
    for wrong in ({redfish.CREDENTIALS: str(path)}, {redfish.CREDENTIALS: "/no/such"}, {redfish.USER: "a"}, {}):
        with pytest.raises(redfish.RedfishError):
            redfish.credentials(wrong)


def test_the_command_keeps_what_bmcs_say_for_the_report_but_no_password(server, tmp_path, monkeypatch, capsys):
    server.of = newer(fan_health="Critical")
    (tmp_path / "hall.yaml").write_text(
        "system: minislurm\npartition: gpu\nnodes: n1\nminutes: 5\nchecks: {}\n"
        f"redfish: {{address: '{server.address}'}}\n"
    )
    monkeypatch.setenv("TENKEN_CAMPAIGNS", str(tmp_path))
    monkeypatch.delenv(redfish.USER, raising=False)
    assert command.main(["hardware", "hall"]) == 2 and redfish.USER in capsys.readouterr().err
    monkeypatch.setenv(redfish.USER, LOGIN[0])
    monkeypatch.setenv(redfish.PASSWORD, LOGIN[1])
    assert command.main(["hardware", "hall"]) == 1
    said = capsys.readouterr().out
    assert "n1: fan Fan 1: health Critical" in said and "1 of 1 BMCs read" in said
    written = "".join(p.read_text() for p in (tmp_path / "hall").rglob("*") if p.is_file())
    assert LOGIN[1] not in said + written and LOGIN[0] not in written
    assert journal.read(tmp_path / "hall").begun is None or not journal.read(tmp_path / "hall").begun
    assert redfish.kept(tmp_path / "hall")["n1"].items["power supplies"] == "2 x P3000 1.2 3000 W"
    (tmp_path / "hall" / redfish.FILE).write_text("{}x")
    with pytest.raises(redfish.RedfishError, match="damaged"):
        redfish.kept(tmp_path / "hall")


def test_the_report_names_faults_and_the_odd_one_out_and_nobody_for_a_silent_bmc():
    nodes = tuple(f"n{i}" for i in range(8))
    one = Campaign("c", "standin", "gpu", nodes, 60.0)
    said = {n: redfish.Hardware({"power supplies": "2 x P"}) for n in nodes}
    said["n3"] = redfish.Hardware({"power supplies": "P"})
    said["n5"] = redfish.Hardware({"power supplies": "2 x P"}, ["fan F: health Critical"])
    said["n6"] = redfish.Hardware(error="no answer: timed out")
    table, found = findings.Table({}), findings.Findings(nodes=8)
    findings.take_hardware(table, found, said, one)
    findings.judge(table, found, one)
    assert set(found.bad_nodes()) == {"n3", "n5"}
    text = pages.text(found, one, lambda node, reason: f"drain {node}")
    assert "n5: fan F: health Critical" in text and "n6: no answer: timed out" in text
    assert "n3: power supplies is P" in text and "drain n6" not in text


@pytest.mark.parametrize(
    ("redfish_lines", "message"),
    [
        ("{address: 'http://{node}-bmc'}", "unencrypted"), ("{address: 'https://bmc'}", "one BMC for all nodes"),
        ("{address: 'https://{node}-bmc', ca: no.pem}", "no file"), ("{address: 'https://{node}', user: me}", "user"),
    ],
)  # fmt: skip
def test_a_wrong_line_of_the_campaign_file_is_told(tmp_path, monkeypatch, redfish_lines, message):
    monkeypatch.setenv("TENKEN_CAMPAIGNS", str(tmp_path))
    path = tmp_path / "hall.yaml"
    head = "system: minislurm\npartition: gpu\nnodes: n[1-2]\nminutes: 5\nchecks: {}\n"
    path.write_text(f"{head}redfish: {redfish_lines}\n")
    with pytest.raises(CampaignError, match=message):
        file.load("hall")
    path.write_text(f"{head}redfish: {{address: 'https://{{node}}-bmc', verify: false}}\n")
    assert file.load("hall").bmc == "https://{node}-bmc" and not file.load("hall").bmc_verify


def chassis_tree(count: int, **of_first):
    """A BMC of `count` chassis with a fan each."""
    found = {"/Chassis": {"Members": [member(f"/Chassis/{i}") for i in range(count)]}}
    for i in range(count):
        found[f"/Chassis/{i}"] = member(f"/Chassis/{i}", Thermal=member(f"/T{i}"), **(of_first if i == 0 else {}))
        found[f"/T{i}"] = {"Fans": [ok(Name=f"F{i}")]}
    return found


def test_a_tree_of_49_chassis_is_read(server):
    server.of = chassis_tree(49)
    for at, code in enumerate((404, 405, 501)):  # what a BMC does not have
        server.special[f"{ROOT}/T{at}"] = lambda h, code=code: h.answer(code, {})
    assert server.read() == redfish.Hardware({"fans": "46 x present"})


@pytest.mark.parametrize("host", ["", "http://127.0.0.1", "https://127.0.0.1:443", "{address}"])
def test_links_in_full_and_of_another_scheme_lead_to_the_same_bmc(server, host):
    server.of = chassis_tree(2)
    host = host.format(address=server.address)
    server.of["/Chassis"]["Members"] = [{"@odata.id": f"{host}{ROOT}/Chassis/{i}"} for i in range(2)]
    server.of["/T1/"] = server.of["/T1"]
    server.special[f"{ROOT}/T1"] = lambda h: h.answer(308, {}, Location=f"{host}{ROOT}/T1/")
    assert server.read() == redfish.Hardware({"fans": "2 x present"})
    server.of["/Chassis"]["Members"] = [{"@odata.id": f"https://127.0.0.2{ROOT}/Chassis/0"}]
    assert "does not lead below" in server.read().error


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_redirects_on_the_same_bmc_are_followed(server, code):
    server.of = chassis_tree(1)
    for path in ("/Chassis", "/T0"):
        where = f"{ROOT}{path}/" if code != 302 else f"{server.address}{ROOT}{path}/"
        server.of[f"{path}/"] = server.of[path]
        server.special[f"{ROOT}{path}"] = lambda h, where=where: h.answer(code, {}, Location=where)
    assert server.read().items == {"fans": "present"}
    server.special[f"{ROOT}/T0/"] = lambda h: h.answer(code, {}, Location=f"{ROOT}/T0")
    assert "redirects" in server.read().error


def raw(text):
    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    return answer


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (lambda h: h.answer(500, {}), "HTTP 500"), (lambda h: h.answer(403, {}), "may not read it"),
        (raw(b"{broken"), "not JSON"), (raw(b"[]"), "not a JSON object"), (raw(b"\xff\xfe"), "not JSON"),
        (raw(b'{"Members": 1} x'), "not JSON"),
        (lambda h: h.answer(302, {}, Location="https://evil/redfish/v1/Chassis/1"), "HTTP 302"),
        (lambda h: h.connection.close(), "no answer"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("bad", ["/Chassis/1", "/T1"])
def test_a_member_that_cannot_be_read_voids_itself_alone(server, how, says, bad):
    server.of = chassis_tree(3, ThermalSubsystem=member("/S"))
    server.of["/S"] = member("/S", LeakDetection=member("/L"))
    server.of["/L"] = {"LeakDetectors": member("/Ls")}
    wet = [ok(Name=name, DetectorState="LeakDetected") for name in ("tray", "manifold")]
    server.of["/Ls"] = {"Members": [*wet, ok(Name="silent"), ok(Name="dry", DetectorState="OK")]}
    server.special[f"{ROOT}{bad}"] = how
    found = server.read()
    assert found.faults == [f"leak detector {name}: detector state LeakDetected" for name in ("manifold", "tray")]
    assert found.readings == {"leaks": 2.0}
    assert found.items["fans"] == "2 x present" and bad in found.error and says in found.error
    table, all_ = findings.Table({}), findings.Findings(nodes=1)
    findings.take_hardware(table, all_, {"n1": found}, Campaign("c", "standin", "gpu", ("n1",), 60.0))
    assert all_.hardware["n1"] and all_.unread["n1"] and "BMC read" not in table.settings, (
        "half a BMC is compared with none"
    )


@pytest.mark.parametrize(
    ("chassis", "detection"),
    [
        ({"LeakDetectors": member("/Ls")}, {}),
        ({}, {"LeakDetectorGroups": [{"Detectors": [{"DeviceName": "Rope", "DetectorState": "Critical"}]},
                                     {"GroupName": "empty"}, {"Detectors": [{"DetectorState": "OK"}]}]}),
        ({"LeakDetectors": member("/Ls")}, {"LeakDetectors": member("/Ls")}),
    ],
)  # fmt: skip
def test_a_leak_is_found_where_a_bmc_has_its_detectors(server, chassis, detection):
    server.of = chassis_tree(1, ThermalSubsystem=member("/S"), **chassis)
    server.of["/S"] = member("/S", LeakDetection=member("/L"))
    server.of["/L"] = member("/L", **detection)
    server.of["/Ls"] = {"Members": [ok(Name="Rope", DetectorState="Critical"), ok(Name="dry", DetectorState="OK")]}
    found = server.read()
    assert found.faults == ["leak detector Rope: detector state Critical"]
    assert found.readings == {"leaks": 1.0} and not found.error


def test_text_that_is_not_quite_json_voids_nothing(server):
    server.of = chassis_tree(2)
    text = b'\xef\xbb\xbf{"Fans": [{"Name": "L\xffter\n1", "Status": {"Health": "Critical"}}]}'
    server.special[f"{ROOT}/T1"] = raw(text)
    found = server.read()
    assert (found.items, len(found.faults), found.error) == ({"fans": "2 x present"}, 1, "")
    assert found.faults[0].endswith("1: health Critical")


def test_members_that_are_no_links_are_named_and_an_empty_slot_is_no_fault(server):
    server.of = chassis_tree(1)
    server.of["/Chassis"]["Members"] += [None, "x", {"Thermal": member("/T7")}]
    server.of["/T7"] = {"Fans": [{"Name": "F7", "Status": {"State": "Absent", "Health": "Critical"}}, ok(Name="F8")]}
    found = server.read()
    assert (found.items, found.faults) == ({"fans": "2 x present"}, [])
    assert "2 members that are not links" in found.error


def supply(name, **status):
    return {"Name": name, "Model": "P5500", **({"Status": status} if status else {})}


@pytest.mark.parametrize(
    ("supplies", "count", "faults"),
    [
        # whole members in the collection, also next to links
        ([supply(f"PSU {i}", State="Enabled", Health="OK") for i in range(4)], 4, []),
        ([supply("PSU 0", State="Enabled", Health="OK"), member("/psu9"), supply("PSU 2", Health="Critical")], 3,
         ["power supply PSU 2: health Critical"]),
        # supplies on standby, spares, and those that report half of their state or nothing
        ([supply("A", State="StandbySpare", Health="OK"), supply("B", State="StandbyOffline")], 2, []),
        ([supply("A", State="Enabled"), supply("B", State="Absent"), supply("C", State="Absent", Health="OK")], 1, []),
        ([supply("A"), supply("B", Health=None, State=None), supply("C", Health="OK")], 3, []),
        ([supply("A", State="UnavailableOffline", Health="OK"), supply("B", State="Standby", Health="Warning")], 2,
         ["power supply A: state UnavailableOffline", "power supply B: health Warning"]),
        ([supply("A") | {"Status": "OK"}, supply("B") | {"Status": [{"Health": "Critical"}]}], 2, []),
    ],
    ids=["shelf", "links-too", "spare", "absent", "silent", "at-fault", "odd"],
)  # fmt: skip
def test_a_shelf_of_power_supplies(server, supplies, count, faults):
    shelf = "/Chassis/shelf"
    server.of = {
        "/Chassis": {"Members": [member(shelf)]}, shelf: member(shelf, PowerSubsystem=member(f"{shelf}/P")),
        f"{shelf}/P": member(f"{shelf}/P", PowerSupplies=member(f"{shelf}/P/S")), f"{shelf}/P/S": {"Members": supplies},
        "/psu9": supply("PSU 9", State="Enabled", Health="OK"),
    }  # fmt: skip
    found = server.read()
    assert (found.faults, found.error) == (faults, "")
    kinds = found.items["power supplies"]
    assert kinds == (f"{count} x P5500" if count > 1 else "P5500")


def test_what_was_read_before_the_time_was_up_is_kept(server):
    server.of = chassis_tree(3)
    server.special[f"{ROOT}/Chassis/2"] = lambda h: time.sleep(1.5)
    found = server.read(seconds=0.6)
    assert found.items == {"fans": "2 x present"} and found.error


@pytest.mark.parametrize(
    ("chassis", "watts"),
    [
        ({"EnvironmentMetrics": member("/E")}, 9400.5), ({"Power": member("/P")}, 8100.0),
        ({"EnvironmentMetrics": member("/E"), "Power": member("/P")}, 9400.5),
        ({"EnvironmentMetrics": member("/N"), "Power": member("/P")}, 8100.0),
        ({"EnvironmentMetrics": member("/text")}, 812.5), ({"Power": member("/Q")}, 3000.0),
        ({"Power": member("/half")}, None), ({"PowerSubsystem": member("/new")}, 2500.0),
        ({"EnvironmentMetrics": member("/no")}, None), ({"EnvironmentMetrics": member("/N")}, None),
        ({"Power": member("/one")}, 8100.0),
    ],
)  # fmt: skip
def test_the_power_of_a_node_is_that_of_its_largest_chassis(server, chassis, watts):
    server.of = chassis_tree(2, **chassis)
    server.of["/Chassis/1"]["EnvironmentMetrics"] = member("/part")
    server.of["/part"] = {"PowerWatts": {"Reading": 0 if (watts or 0) < 8000 else 700}}
    server.of["/E"] = {"PowerWatts": {"Reading": 9400.5}}
    server.of["/N"] = {"PowerWatts": {"Reading": None}}
    server.of["/text"] = {"PowerWatts": {"Reading": "812.5"}}
    # where no chassis reports it, all supplies together do
    absent = {"Status": {"State": "Absent"}}
    server.of["/Q"] = {"PowerSupplies": [ok(PowerInputWatts=1400), ok(PowerInputWatts=1600), absent]}
    server.of["/half"] = {"PowerSupplies": [ok(PowerInputWatts=1400), ok(PowerInputWatts=None)]}
    server.of["/new"] = member("/new", PowerSupplies=member("/Ps"))
    server.of["/Ps"] = {"Members": [ok(Metrics=member("/M")), ok(Metrics=member("/M"))]}
    server.of["/M"] = {"InputPowerWatts": {"Reading": 1250}}
    server.of["/P"] = {"PowerControl": [{"PowerConsumedWatts": 8100}], "PowerSupplies": []}
    server.of["/one"] = {"PowerControl": {"PowerConsumedWatts": 8100}}
    found = server.read()
    assert found.readings.get("power_w") == watts
    assert redfish.readings({"n1": found}, "2026-01-01T00:00:00Z") == (
        "" if watts is None else f'{{"time": "2026-01-01T00:00:00Z", "node": "n1", "power_w": {watts}}}\n'
    )
