make=yes
begin "$1"
walk "$2"
walk "$3"
certain
