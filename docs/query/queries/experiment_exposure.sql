-- People by the first variant of a flag they were shown; those who saw several are counted apart, those who got none
-- (`false`) not at all.
SELECT
    if(variants = 1, first_variant, 'several') AS variant,
    count() AS people
FROM
(
    SELECT
        person_id,
        argMin(feature_flag_response, timestamp) AS first_variant,
        uniqExact(feature_flag_response) AS variants
    FROM events_with_person
    WHERE project_id = {project:UInt32} AND event = '$feature_flag_called' AND feature_flag = {flag:String}
      AND feature_flag_response NOT IN ('', 'false')
      AND timestamp >= toDateTime({from:Date}, {timezone:String}) AND timestamp < toDateTime({to:Date}, {timezone:String})
    GROUP BY person_id
)
GROUP BY variant
ORDER BY variant
