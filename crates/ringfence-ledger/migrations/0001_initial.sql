-- One row per command. Its id is a UUIDv7, so the key order is the time order and no index on the
-- time is needed; without a rowid an execution costs one page, not two.
CREATE TABLE executions (
    id          TEXT PRIMARY KEY NOT NULL,
    started_ms  INTEGER NOT NULL,
    finished_ms INTEGER,
    command     TEXT NOT NULL,
    argv        TEXT,
    cwd         TEXT,
    project     TEXT,
    session_key TEXT,
    exit_code   INTEGER,
    signal      INTEGER,
    blocked     INTEGER NOT NULL DEFAULT 0,
    timed_out   INTEGER NOT NULL DEFAULT 0,
    duration_ms REAL,
    adapter     TEXT,
    launcher    TEXT,
    layers      TEXT,
    degraded    TEXT,
    failure     TEXT,
    owner_pid   INTEGER NOT NULL,
    owner       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The execution may be unknown (a refusal before anything ran, or a lost record), so there is no
-- foreign key: evidence is never dropped because its frame is missing.
CREATE TABLE violations (
    id           INTEGER PRIMARY KEY,
    execution_id TEXT,
    time_ms      INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    severity     INTEGER NOT NULL,
    resource     TEXT NOT NULL,
    blocked      INTEGER NOT NULL,
    body         TEXT NOT NULL
) STRICT;
CREATE INDEX violations_by_execution ON violations (execution_id);
CREATE INDEX violations_by_time ON violations (time_ms);

CREATE TABLE decisions (
    id           INTEGER PRIMARY KEY,
    execution_id TEXT,
    time_ms      INTEGER NOT NULL,
    decision     TEXT NOT NULL,
    kind         TEXT NOT NULL,
    resource     TEXT NOT NULL,
    body         TEXT NOT NULL
) STRICT;
CREATE INDEX decisions_by_time ON decisions (time_ms);

-- Paths are TEXT when they are UTF-8 and BLOB otherwise: a grant must name exactly its resource.
CREATE TABLE grants (
    id           TEXT PRIMARY KEY NOT NULL,
    created_ms   INTEGER NOT NULL,
    scope        TEXT NOT NULL,
    path         ANY NOT NULL,
    access       TEXT NOT NULL,
    recursive    INTEGER NOT NULL,
    session_key  TEXT,
    project      ANY,
    execution_id TEXT,
    revoked_ms   INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    id           INTEGER PRIMARY KEY,
    execution_id TEXT,
    time_ms      INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    body         TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_time ON events (time_ms);

-- The registry of sandboxes that live longer than a command.
CREATE TABLE sandboxes (
    name         TEXT PRIMARY KEY NOT NULL,
    kind         TEXT NOT NULL,
    provider     TEXT NOT NULL,
    session_key  TEXT NOT NULL,
    scope        TEXT NOT NULL,
    created_ms   INTEGER NOT NULL,
    last_used_ms INTEGER NOT NULL,
    changed_ms   INTEGER NOT NULL,
    image        TEXT NOT NULL,
    config_hash  TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('reserved', 'ready', 'removing')),
    cdp_port     INTEGER,
    novnc_port   INTEGER,
    failures     INTEGER NOT NULL DEFAULT 0,
    last_error   TEXT,
    owner_pid    INTEGER NOT NULL,
    owner        TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Who is using a sandbox right now; a sandbox with a living user is never pruned.
CREATE TABLE leases (
    id       TEXT PRIMARY KEY NOT NULL,
    sandbox  TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    owner    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Names removed a short while ago, so that a listing made before the removal cannot bring them back.
CREATE TABLE removed_sandboxes (
    name       TEXT PRIMARY KEY NOT NULL,
    removed_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
    name  TEXT PRIMARY KEY NOT NULL,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
