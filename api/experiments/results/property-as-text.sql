-- The value of the property `key` of an event as text, as feature flags compare it: a null is the text null, and only an
-- absent property is NULL.
if(JSONType(properties, key) = 'String', JSONExtractString(properties, key), nullIf(JSONExtractRaw(properties, key), ''))
