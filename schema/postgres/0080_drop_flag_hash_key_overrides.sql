-- Nothing has written to it since identifiers are kept by distinct id (flag_hash_keys, 0052).
DROP TABLE flag_hash_key_overrides;
