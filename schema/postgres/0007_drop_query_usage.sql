-- Queries are no longer counted by the definitions that they name.
DROP TABLE query_usage;
