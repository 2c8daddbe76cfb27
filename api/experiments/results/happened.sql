-- Which events may count for the metric: not those of bots, and never the exposure itself.
project_id = {project_id:UInt32}
            AND ({any_event:Bool} OR event IN {events:Array(String)})
            AND timestamp >= {since:DateTime64(3, 'UTC')} AND timestamp < {until:DateTime64(3, 'UTC')}
            AND NOT is_bot
            AND NOT (event = '$feature_flag_called' AND feature_flag = {flag:String})
