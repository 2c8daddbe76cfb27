-- The value of the property `key` of an event as text; NULL when it is absent or null.
if(JSONType(properties, key) = 'String', JSONExtractString(properties, key), nullIf(nullIf(JSONExtractRaw(properties, key), ''), 'null'))
