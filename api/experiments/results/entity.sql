-- Who is counted: the person of the event, merges followed, or one of its groups; empty when it has no such group.
if({group_type:String} = '', toString(person_id), groups[{group_type:String}])
