"""What a local cluster consists of, and how it may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrormq.cli.local.plan import NodePlan, Plan, PlanError, Wish, find, read, settle

NOTHING = Wish(None, None, [], "", "", "")


def make(directory: Path, wish: Wish = NOTHING, up: tuple[str, ...] = ()) -> Plan:
    plan = settle(directory, wish, (3, 5671), lambda _, node: node.name in up)
    directory.mkdir(exist_ok=True)
    plan.save()
    return plan


def names(plan: Plan) -> list[str]:
    return [node.name for node in plan.nodes]


def test_a_new_cluster_has_three_nodes_at_the_usual_ports(tmp_path: Path):
    plan = make(tmp_path / "new")
    assert plan.nodes == (NodePlan("rabbit1@localhost", 5672, 15672), NodePlan("rabbit2@localhost", 5673, 15673),
                          NodePlan("rabbit3@localhost", 5674, 15674))
    assert plan.coordination == f"sqlite:{tmp_path / 'new' / 'cluster.sqlite'}"
    assert read(tmp_path / "new") == plan


def test_names_count_and_the_rest_get_the_usual_ones(tmp_path: Path):
    assert names(make(tmp_path / "a", NOTHING._replace(names=["a@h", "b@h"]))) == ["a@h", "b@h"]
    assert names(make(tmp_path / "b", NOTHING._replace(names=["a@h"], nodes=2))) == ["a@h", "rabbit2@localhost"]


def test_a_cluster_stays_as_it_is_unless_something_is_asked_for(tmp_path: Path):
    plan = make(tmp_path / "c", NOTHING._replace(nodes=2, base_port=7000))
    assert make(tmp_path / "c") == plan


def test_a_cluster_grows_and_loses_its_last_nodes_while_they_are_stopped(tmp_path: Path):
    make(tmp_path / "c", NOTHING._replace(nodes=2))
    grown = make(tmp_path / "c", NOTHING._replace(nodes=4))
    assert [node.amqp_port for node in grown.nodes] == [5672, 5673, 5674, 5675]
    with pytest.raises(PlanError, match="stop those that are too many"):
        make(tmp_path / "c", NOTHING._replace(nodes=3), up=("rabbit4@localhost",))
    assert len(make(tmp_path / "c", NOTHING._replace(nodes=3), up=("rabbit1@localhost",)).nodes) == 3


def test_ports_change_only_while_no_node_runs(tmp_path: Path):
    make(tmp_path / "c")
    with pytest.raises(PlanError, match="leave --base-port out"):
        make(tmp_path / "c", NOTHING._replace(base_port=7000), up=("rabbit2@localhost",))
    assert make(tmp_path / "c", NOTHING._replace(base_port=7000)).nodes[0].amqp_port == 7001


@pytest.mark.parametrize("wish", [
    NOTHING._replace(nodes=-1), NOTHING._replace(nodes=100), NOTHING._replace(base_port=-1), NOTHING._replace(base_port=65_000),
    NOTHING._replace(names=["x"]), NOTHING._replace(names=["../x@y"]), NOTHING._replace(names=["x@y", "x@y"]),
    NOTHING._replace(names=["x@y", "z@y"], nodes=1), NOTHING._replace(coordination="etcd:"),
])
def test_what_makes_no_sense_is_refused(tmp_path: Path, wish: Wish):
    with pytest.raises(PlanError):
        settle(tmp_path / "c", wish, (3, 5671), lambda _, __: False)


def test_a_directory_with_something_else_in_it_is_not_used(tmp_path: Path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(PlanError, match="holds no cluster"):
        settle(tmp_path, NOTHING, (3, 5671), lambda _, __: False)


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 99}'])
def test_a_plan_that_cannot_be_read_is_told(tmp_path: Path, text: str):
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(PlanError, match=r"cluster\.json"):
        find(tmp_path)


def test_a_node_is_found_by_its_name_or_the_part_before_its_host(tmp_path: Path):
    plan = make(tmp_path / "c", NOTHING._replace(names=["a@one", "a@two", "b@two"]))
    assert plan.node("b").name == plan.node("b@two").name == "b@two"
    for unclear in ("a", "c", ""):
        with pytest.raises(PlanError, match="its nodes are"):
            plan.node(unclear)
