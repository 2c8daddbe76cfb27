-- Country of the user, from the property. A handful of values in a block: an index of one byte a row, compressed to nearly nothing.
ALTER TABLE events {{on_cluster}}
    ADD COLUMN IF NOT EXISTS country LowCardinality(String) DEFAULT '' COMMENT 'Property $geoip_country_code: ISO 3166-1 code of the country of the address, from MILLRACE_GEOIP_PATH or as sent' CODEC(ZSTD(1))
