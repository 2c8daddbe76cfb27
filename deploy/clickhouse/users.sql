-- Logins of a ClickHouse server, by tier; ingest has none. `millrace logins create` runs it as an administrator, with
-- your passwords in the place of the marks. Every statement is parsed by the engine in a test. A cluster keeps its users
-- in Keeper (user_directories.replicated), or add ON CLUSTER to each.
--
-- The owner makes and changes tables: `npm run migrate`, promoted properties, retention, deletion of persons.
CREATE USER IF NOT EXISTS millrace_owner IDENTIFIED WITH sha256_password BY '<owner password>';
GRANT CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, ALTER, SELECT, INSERT, OPTIMIZE, TRUNCATE ON millrace.* TO millrace_owner;
GRANT CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, ALTER, SELECT, INSERT ON millrace_all.* TO millrace_owner;
GRANT CLUSTER, REMOTE ON *.* TO millrace_owner;
GRANT SELECT ON system.* TO millrace_owner;

-- The pipeline inserts, looks up stored events, and deletes by retention and on request. It cannot create tables.
CREATE USER IF NOT EXISTS millrace_pipeline IDENTIFIED WITH sha256_password BY '<pipeline password>';
GRANT SELECT, INSERT, ALTER DELETE, ALTER UPDATE ON millrace.* TO millrace_pipeline;
GRANT SELECT, INSERT ON millrace_all.* TO millrace_pipeline;
GRANT CLUSTER, REMOTE ON *.* TO millrace_pipeline;
GRANT SELECT ON system.parts TO millrace_pipeline;
GRANT SELECT ON system.processes TO millrace_pipeline;
GRANT SELECT ON system.detached_parts TO millrace_pipeline;
GRANT SELECT ON system.disks TO millrace_pipeline;
GRANT SELECT ON system.asynchronous_metrics TO millrace_pipeline;
GRANT SELECT ON system.mutations TO millrace_pipeline;
GRANT SELECT ON system.errors TO millrace_pipeline;
GRANT SELECT ON system.clusters TO millrace_pipeline;
GRANT SELECT ON system.replicas TO millrace_pipeline;
GRANT SELECT ON system.replication_queue TO millrace_pipeline;
GRANT SELECT ON system.one TO millrace_pipeline;
GRANT SELECT ON system.tables TO millrace_pipeline;

-- The API only reads.
CREATE USER IF NOT EXISTS millrace_api IDENTIFIED WITH sha256_password BY '<api password>' SETTINGS readonly = 2, max_memory_usage = 4000000000, max_execution_time = 60;
GRANT SELECT ON millrace.* TO millrace_api;
GRANT SELECT ON millrace_all.* TO millrace_api;
-- Sizes and free space, for the status.
GRANT CLUSTER, REMOTE ON *.* TO millrace_api;
GRANT SELECT ON system.parts TO millrace_api;
GRANT SELECT ON system.disks TO millrace_api;

-- Analysts: analyst.sql.
