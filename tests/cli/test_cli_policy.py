"""`headrace policy check` says of a URL what the crawl would do with it, and why."""

from pathlib import Path

from tests.headrace_command import headrace

GITHUB = str(Path(__file__).parents[2] / "deploy" / "profiles" / "github.yaml")


def test_an_allowed_url_is_explained_with_its_type_group_and_priority(tmp_path: Path) -> None:
    url = "https://github.com/o/r/issues/1"
    done = headrace("policy", "check", url, "--config", GITHUB, "--depth", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "allow  https://github.com/o/r/issues/1  (scope.hosts has github.com)",
        "       page type issue, stored, group o/r (at most 100 issue, 500 in all), priority medium",
    ]


def test_the_github_profile_denies_lists_of_one_person_and_means_http_too(tmp_path: Path) -> None:
    wanted = {
        "https://github.com/o/r/pulls/octocat": "deny",
        "https://github.com/o/r/pulls/4you?page=2": "deny",
        "https://github.com/o/r/pulls?page=2": "pulls,",
        "http://github.com/o/r/pulls": "pulls,",
        "http://github.com/o/r/commits/main": "deny",
        "http://github.com/login": "deny",
        "http://github.com/o/r/pull/3/files": "deny",
        "http://github.com/o/r/issues/1": "issue, stored, group o/r (",
        "http://github.com/o/r": "repo_root,",
    }
    done = headrace("policy", "check", *wanted, "--config", GITHUB, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stdout.replace("\n       ", " ").splitlines()
    for (url, verdict), line in zip(wanted.items(), said, strict=True):
        if verdict == "deny":
            assert line.startswith(f"deny   {url}  (denied_pattern: "), line
        else:
            assert line.startswith(f"allow  {url}  "), line
            assert f"page type {verdict}" in line, line


def test_a_denied_url_is_explained_with_the_reason_and_the_pattern(tmp_path: Path) -> None:
    urls = ["https://a.test/x.pdf", "https://b.test/", "http://a.test:99999/", "mailto:x@a.test"]
    done = headrace("policy", "check", *urls, "--seed", "https://a.test/", "--set", r"scope.deny=\.pdf$", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        r"deny   https://a.test/x.pdf  (denied_pattern: scope.deny has \.pdf$)",
        "deny   https://b.test/  (host_not_allowed: scope.mode is domain and b.test is no seed's)",
        "deny   http://a.test:99999/  (bad_port: not a URL that can be fetched)",
        "deny   mailto:x@a.test  (scheme: not a URL that can be fetched)",
    ]


def test_a_pattern_the_engine_refuses_is_one_line(tmp_path: Path) -> None:
    done = headrace("policy", "check", "http://a.test/", "--set", "scope.deny=(?=a)", cwd=tmp_path)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "scope.deny" in line
    assert "(?=" in line


def test_a_page_type_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    done = headrace("policy", "check", "http://a.test/", "--set", "scope.follow_only=isue", cwd=tmp_path)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "scope.follow_only: isue is no page type" in line


def test_the_profiles_pass_the_check_of_settings(tmp_path: Path) -> None:
    for name in ("github.yaml", "general.yaml"):
        done = headrace("config", "check", "--config", str(Path(GITHUB).with_name(name)), cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_a_robots_txt_is_judged_by_its_lines_and_so_is_the_delay_it_asks_for(tmp_path: Path) -> None:
    (tmp_path / "robots.txt").write_text(
        "User-agent: headrace/1.0\nDisallow: /a*b\nCrawl-delay: 2.5\n\nUser-agent: *\nCrawl-delay: 9\nDisallow: /\n"
    )
    urls = ["http://a.test/axb", "http://a.test/x"]
    done = headrace("policy", "robots", "robots.txt", *urls, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "deny\thttp://a.test/axb\tDisallow: /a*b (line 2)",
        "allow\thttp://a.test/x\tno rule matches",
        "delay\t2.5\tCrawl-delay: 2.5 (line 3)",
    ]
    done = headrace("policy", "robots", "robots.txt", "--agent", "another", urls[1], cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "deny\thttp://a.test/x\tDisallow: / (line 7)",
        "delay\t9\tCrawl-delay: 9 (line 6)",
    ]
