from __future__ import annotations

from pathlib import Path

from configs.locate import find, kode_project_key


def test_the_projects_file_is_found_upward_to_the_root_of_the_repository(home: Path, project: Path) -> None:
    deep = project / "a" / "b"
    deep.mkdir(parents=True)
    (project / ".kode.json").touch()
    places = find(None, cwd=deep, home=home)
    assert (places.project, places.project_file) == (project, project / ".kode.json")
    assert places.files == tuple(directory / ".kode.json" for directory in (home, deep, project / "a", project))


def test_the_nearest_file_wins(home: Path, project: Path) -> None:
    (project / "a").mkdir()
    for directory in (project, project / "a"):
        (directory / ".kode.json").touch()
    assert find(None, cwd=project / "a", home=home).project == project / "a"


def test_the_search_stops_at_the_root_of_the_repository(tmp_path: Path, home: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    (inner / ".git").mkdir(parents=True)
    (tmp_path / "outer" / ".kode.json").touch()
    places = find(None, cwd=inner, home=home)
    assert (places.project, places.project_file) == (inner, None)


def test_without_a_repository_only_the_working_directory_counts(tmp_path: Path, home: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "outer" / ".kode.json").touch()
    assert find(None, cwd=inner, home=home).candidates == (inner / ".kode.json",)


def test_a_worktree_whose_git_is_a_file_is_a_repository(tmp_path: Path, home: Path) -> None:
    (tmp_path / "tree" / "a").mkdir(parents=True)
    (tmp_path / "tree" / ".git").write_text("gitdir: elsewhere")
    assert find(None, cwd=tmp_path / "tree" / "a", home=home).candidates[-1] == tmp_path / "tree" / ".kode.json"


def test_the_users_own_file_is_never_the_projects(tmp_path: Path, home: Path) -> None:
    (home / ".git").mkdir()
    (home / "below").mkdir()
    (home / ".kode.json").touch()
    (tmp_path / "link").symlink_to(home)
    for cwd in (home, home / "below", tmp_path / "link"):
        assert find(None, cwd=cwd, home=home).project_file is None
    assert find(home, cwd=tmp_path, home=home).candidates == ()


def test_a_link_to_the_users_own_file_is_not_the_projects(home: Path, project: Path) -> None:
    (home / ".kode.json").touch()
    (project / ".kode.json").symlink_to(home / ".kode.json")
    assert find(None, cwd=project, home=home).project_file is None


def test_a_given_project_is_the_project_whatever_is_above_it(home: Path, project: Path) -> None:
    (project / "a").mkdir()
    (project / ".kode.json").touch()
    places = find(Path("a"), cwd=project, home=home)
    assert (places.project, places.candidates) == (project / "a", (project / "a" / ".kode.json",))


def test_a_project_is_known_to_kode_by_its_path_or_by_where_that_leads(tmp_path: Path, project: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    assert kode_project_key({str(project): {}}, project) == str(project)
    assert kode_project_key({str(tmp_path / "link"): {}}, project) == str(tmp_path / "link")
    assert kode_project_key({str(project): {}}, tmp_path / "link") == str(project)
    assert kode_project_key({"work": {}, str(project / "a"): {}, "/\0": {}}, project) is None
