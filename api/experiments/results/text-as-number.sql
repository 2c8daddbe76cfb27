-- The number that `text` is; NULL for any other text, among them nan and inf, which ClickHouse would take for numbers.
toFloat64OrNull(if(match(assumeNotNull(text), '^[-+.0-9eE]+$'), text, NULL))
