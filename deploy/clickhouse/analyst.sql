-- The read-only login of analysts on a ClickHouse server: a role, its limits, its quota, one user. `millrace logins create`
-- runs it as an administrator, with your password in the place of the mark; a further analyst is the last two statements
-- with another name. Names must not begin with "millrace": queries of such logins count as the
-- product's own. A cluster keeps its users in Keeper
-- (user_directories.replicated), or add ON CLUSTER to each statement. The embedded ClickHouse server has the same limits in its profiles.ts.
--
-- Limits. Each may be lowered by a query and not raised; MIN 1, because 0 would mean none. The two of results have no MIN:
-- a node sends 0 with a subquery to the other shards, which would answer with MIN rows, and refuse more. A query that sets
-- them to 0 itself still ends after max_execution_time.
-- final: exact counts without thinking; duplicates of an event that are not merged away yet count once. They share their
-- partition, so merging across partitions would be work for nothing.
-- distributed_product_mode: on a cluster a query may compare a table of all shards with itself.
-- optimize_skip_unused_shards: a query may not leave out shards. Which one has a row follows from its columns for no table:
-- what views count is where the events are, and events stay where they were when a shard is added.
-- load_balancing, prefer_localhost_replica, max_replica_delay_for_distributed_queries: the first replica of each shard that
-- answers and lacks nothing that is older than a second, so it has what was confirmed.
-- readonly = 2: no writes, no definitions; settings may change within these bounds, because every client sets some.
-- overflow modes: a result beyond the limit is an error, never silently truncated.
CREATE SETTINGS PROFILE IF NOT EXISTS analyst_limits SETTINGS
    readonly = 2,
    final = 1,
    do_not_merge_across_partitions_select_final = 1,
    distributed_product_mode = 'global',
    optimize_skip_unused_shards = 0 CONST,
    load_balancing = 'in_order',
    prefer_localhost_replica = 0,
    max_replica_delay_for_distributed_queries = 2,
    max_memory_usage = 4000000000 MIN 1 MAX 4000000000,
    max_memory_usage_for_user = 8000000000 MIN 1 MAX 8000000000,
    max_bytes_before_external_group_by = 2000000000 MIN 1 MAX 2000000000,
    max_bytes_before_external_sort = 2000000000 MIN 1 MAX 2000000000,
    max_execution_time = 60 MIN 1 MAX 60,
    timeout_overflow_mode = 'throw' CONST,
    max_result_rows = 5000000 MAX 5000000,
    max_result_bytes = 2000000000 MAX 2000000000,
    result_overflow_mode = 'throw' CONST,
    max_concurrent_queries_for_user = 8 MIN 1 MAX 8,
    max_query_size = 1048576 MAX 1048576,
    max_ast_elements = 50000 MAX 50000,
    allow_introspection_functions = 0 CONST,
    log_queries = 1 CONST;

-- The tables of Millrace and nothing else: no files, no addresses (table functions need SOURCES, which is not granted),
-- no queries of others. The second database exists on a cluster; granting it ahead does no harm.
CREATE ROLE IF NOT EXISTS analyst_role SETTINGS PROFILE 'analyst_limits';
GRANT SELECT ON millrace.* TO analyst_role;
GRANT SELECT ON millrace_all.* TO analyst_role;

-- What one analyst may use of the machine, whatever the number of queries: half of its time.
CREATE QUOTA IF NOT EXISTS analyst_quota KEYED BY user_name
    FOR INTERVAL 1 minute MAX queries = 300,
    FOR INTERVAL 1 hour MAX queries = 6000, errors = 3000, execution_time = 1800
    TO analyst_role;

CREATE USER IF NOT EXISTS analyst IDENTIFIED WITH sha256_password BY '<analyst password>' DEFAULT ROLE analyst_role;
GRANT analyst_role TO analyst;
