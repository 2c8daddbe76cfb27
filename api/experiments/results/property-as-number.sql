-- The value of the property as a number, numbers in texts included; NULL for everything else (NaN and infinity too), and
-- for numbers beyond 1e60, whose sums would no longer be exact.
arrayMap(number -> if(abs(number) <= 1e60, number, NULL), arrayMap(key -> toFloat64OrNull({{property_as_text}}), [{property:String}]))[1]
