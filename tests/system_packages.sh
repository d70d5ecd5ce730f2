#!/bin/sh
# Makes sure that system packages the tests use are there: tests/system_packages.sh chromium [package …]
#
# A package counts as present when a program of its name is found (or, for what brings no such program, when dpkg knows
# it). What is missing is installed with apt-get where that is allowed; otherwise the one line to run is printed and
# the tests that need the package say themselves that they were left out. Never fails: tests decide what they need.
set -u

present() {
    command -v "$1" >/dev/null 2>&1 || dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}

missing=""
for package in "$@"; do
    present "$package" || missing="$missing $package"
done
missing="${missing# }"
[ -z "$missing" ] && exit 0

log="${TMPDIR:-/tmp}/antecede-packages.$$.log"
install_line="apt-get update && apt-get install -y --no-install-recommends $missing"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing $missing for the tests (once, about a minute) ..."
    # Several at once would fail on the package manager's lock; wait for it instead.
    if (apt-get -o DPkg::Lock::Timeout=300 update && DEBIAN_FRONTEND=noninteractive apt-get \
        -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing) >"$log" 2>&1; then
        rm -f "$log"
        exit 0
    fi
    echo "could not install $missing: $(tail -n 1 "$log") (whole log: $log)"
fi
echo "================================================================================"
echo "MISSING: $missing. The tests that need it are LEFT OUT. To run them too:"
echo "    sudo sh -c '$install_line'"
echo "================================================================================"
exit 0
