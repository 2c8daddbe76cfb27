-- The value of the property as a number, numbers in texts included; NULL for everything else, and for
-- numbers whose squares no longer add up.
arrayMap(number -> if(abs(number) <= 1e100, number, NULL), arrayMap(key -> toFloat64OrNull({{property_as_text}}), [{property:String}]))[1]
