# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# private-cluster: accounting of its own (--accounting): a private MariaDB and slurmdbd on loopback, with
# the cluster, an account `main` and the caller in it. Whom else it knows is the caller's business, by
# sacctmgr. Sourced.
# shellcheck disable=SC2154  # the variables of the options are private-cluster's
as_slurm_user() { if ((EUID == 0)); then runuser -u "$slurm_user" -- "$@"; else "$@"; fi; }

write_accounting_lines() {
    if [[ ! $accounting ]]; then echo "AccountingStorageType=accounting_storage/none"; return; fi
    printf '%s\n' AccountingStorageType=accounting_storage/slurmdbd AccountingStorageHost=127.0.0.1 \
        "AccountingStoragePort=$((port + node_count + 1))" "AccountingStorageEnforce=$accounting" \
        AccountingStorageTRES=gres/gpu "AccountingStoragePass=$dir/run/munge.socket"
}

# Both hold the database's password: each is its daemon's alone. The database is there before slurmdbd: with MariaDB's
# library 11.8.9 (Debian 13) a slurmdbd that had to create it has no more queries answered by that connection.
write_accounting_files() {
    local password
    password=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
    install -d -m 700 -o "$slurm_user" "$dir/mariadb"
    install -m 600 -o "$slurm_user" /dev/stdin "$dir/mariadb/init.sql" <<END
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY '$password';
GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';
END
    install -m 600 -o "$slurm_user" /dev/stdin "$dir/slurmdbd.conf" <<END
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket
${listen:+CommunicationParameters=NoInAddrAny}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((port + node_count + 1))
SlurmUser=$slurm_user
PluginDir=$stock_plugins
LogFile=$dir/log/slurmdbd.log
PidFile=$dir/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((port + node_count + 2))
StorageUser=slurm
StoragePass=$password
StorageLoc=slurm_acct_db
END
}

start_mariadb() {
    # A mariadbd that starts removes the temporary tables of all others from a directory that they share.
    install -d -m 700 -o "$slurm_user" "$dir/mariadb/tmp"
    # As that user from the start: given --user it would change owners of MariaDB's own installation.
    as_slurm_user env TMPDIR="$dir/mariadb/tmp" mariadb-install-db --no-defaults --datadir="$dir/mariadb/data" --skip-test-db \
        --auth-root-authentication-method=normal >"$dir/log/mariadb-install.log" 2>&1 ||
        die "mariadb-install-db failed: $(grep -m 1 ERROR "$dir/log/mariadb-install.log" || tail -n 3 "$dir/log/mariadb-install.log")"
    # It does not go into the background by itself.
    # shellcheck disable=SC2016
    launch sh -c 'exec >>"$0" 2>&1; "$@" &' "$dir/log/mariadbd.out" "$dir/bin/mariadbd" --no-defaults --user="$slurm_user" --datadir="$dir/mariadb/data" \
        --tmpdir="$dir/mariadb/tmp" --socket="$dir/mariadb/socket" --pid-file="$dir/mariadb/pid" --init-file="$dir/mariadb/init.sql" \
        --bind-address=127.0.0.1 --port=$((port + node_count + 2)) --skip-name-resolve \
        --innodb-buffer-pool-size=32M --innodb-flush-log-at-trx-commit=0 --skip-log-bin
    wait_until "$limit" test -S "$dir/mariadb/socket" ||
        die "mariadbd did not start: $(tail -n 3 "$dir/log/mariadbd.out")"
}

accounting_answers() { sacctmgr -n show cluster >/dev/null 2>&1; }
accounting_settled() { accounting_answers || gone slurmdbd; }

start_accounting() {
    start_mariadb
    launch "$dir/bin/slurmdbd" || die "slurmdbd did not start: $(tail -n 3 "$dir/log/slurmdbd.log" 2>&1)"
    wait_until "$limit" accounting_settled ||
        die "slurmdbd does not answer after $limit s: $(tail -n 3 "$dir/log/slurmdbd.log" 2>&1)"
    accounting_answers || die "slurmdbd ended: $(grep -m 1 fatal "$dir/log/slurmdbd.log" || tail -n 1 "$dir/log/slurmdbd.log")"
    local words user
    local -a all=("add cluster arena$port" "add account main") users=("$me")
    # Profile runs are the service user's jobs.
    [[ $profile != on || $service_user == "$me" ]] || users+=("$service_user")
    for user in "${users[@]}"; do
        all+=("add user $user account=main" "modify user $user set defaultaccount=main")
    done
    for words in "${all[@]}"; do
        # shellcheck disable=SC2086  # words
        sacctmgr -i $words >>"$dir/log/sacctmgr.log" 2>&1 ||
            die "sacctmgr $words failed: $(tail -n 3 "$dir/log/sacctmgr.log")"
    done
}
